"""``.. layers::``: draws the rows of the import rule, read from ``[tool.importlinter]`` in pyproject.toml."""

from __future__ import annotations

import html
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

# All lengths in pixels; colours come from the page, so that the drawing is readable in light and dark.
WIDTH, MARGIN, PAD, GAP = 760, 14, 10, 8
CHARACTER, CELL, TITLE = 7.9, 26, 22


def rows_of(package: str, contracts: list[dict[str, Any]]) -> list[list[str]]:
    """Return the rows of a package's contract, from the top, each with its modules."""
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == [package])
    return [[name.strip("() ") for name in layer.split("|")] for layer in layers]


def order_of_packages(contracts: list[dict[str, Any]]) -> list[str]:
    """Return the packages, from the top."""
    (layers,) = (c["layers"] for c in contracts if c["type"] == "layers" and "containers" not in c)
    return list(layers)


def draw(contracts: list[dict[str, Any]]) -> str:
    """Return the drawing as SVG."""
    parts: list[str] = []
    y = 2.0
    packages = order_of_packages(contracts)
    contained = {name for contract in contracts for name in contract.get("containers", ())}
    for package in packages:
        height, body = _package(package, rows_of(package, contracts) if package in contained else [], y)
        parts += body
        y += height
        if package != packages[-1]:
            parts.append(f'<path class="edge" d="M{WIDTH / 2} {y} v{MARGIN + 6} m-5 -7 l5 7 l5 -7"/>')
            y += MARGIN + 10
    said = "Three packages, one above the other; in each, rows of modules. Imports go downwards only."
    return (
        f'<svg class="layers" role="img" viewBox="0 0 {WIDTH} {y + 4:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{said}</title><style>{STYLE}</style>{''.join(parts)}</svg>"
    )


STYLE = (
    ".layers{max-width:100%;font:13px ui-monospace,monospace}"
    ".layers text{fill:currentColor}.layers .title{font-weight:bold}"
    ".layers rect{fill:currentColor;fill-opacity:.04;stroke:currentColor;stroke-opacity:.45}"
    ".layers .cell{fill-opacity:.09;stroke-opacity:.25}"
    ".layers .edge{fill:none;stroke:currentColor;stroke-opacity:.7}"
)


def _package(name: str, rows: list[list[str]], top: float) -> tuple[float, list[str]]:
    parts = [f'<text class="title" x="{MARGIN + PAD}" y="{top + 17}">{name}</text>']
    y = top + TITLE + 4
    for row in rows:
        x = float(MARGIN + PAD)
        for module in row:
            width = len(module) * CHARACTER + 16
            if x + width > WIDTH - MARGIN - PAD:
                x, y = float(MARGIN + PAD), y + CELL + 3
            parts.append(f'<rect class="cell" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{CELL}" rx="4"/>')
            parts.append(f'<text x="{x + 8:.0f}" y="{y + 17:.0f}">{html.escape(module)}</text>')
            x += width + GAP
        y += CELL + GAP
    height = y - top + (2 if rows else 4)
    frame = f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height:.0f}" rx="6"/>'
    return height, [frame, *parts]


class Layers(SphinxDirective):
    """Puts the drawing into the page."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(PYPROJECT))
        contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
        return [nodes.raw("", draw(contracts), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("layers", Layers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Pictures of what was measured: ``python -m benchmarks.plots`` draws those of ``benchmarks/results`` again."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

LINE = 0.05  # the share of conflicts above which OCC["CONFLICT_WARN"] warns
COLOURS = {
    "select_for_update": "#555555",
    "mutate (as shipped)": "#1a7f37",
    "retry with jitter": "#0969da",
    "retry at once": "#cf222e",
    "field ownership": "#8250df",
    "work queue": "#bf8700",
    "unguarded": "#999999",
}


def draw(results: Path) -> None:
    """Draw a picture for each ``hot_key-*.json``."""
    for path in sorted(results.glob("hot_key-*.json")):
        report = json.loads(path.read_text())
        _cost_of_conflicts(report, path.with_name(f"{path.stem}-curve.png"))
        _strategies(report, path.with_name(f"{path.stem}-strategies.png"))


def _by_strategy(report: dict[str, Any], figure: str) -> dict[str, dict[str, float]]:
    """Return strategy -> scenario -> the median of ``figure``."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in report["rows"]:
        found[row["strategy"]][row["scenario"]].append(row[figure])
    return {name: {where: median(values) for where, values in rows.items()} for name, rows in found.items()}


def _cost_of_conflicts(report: dict[str, Any], target: Path) -> None:
    """Draw how many attempts are refused as the load grows, and what that costs compared with ``select_for_update``."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(15, 4), layout="constrained")
    panels = (
        ("conflicts", "refused attempts, share"),
        ("p99_ms", "99th percentile, compared"),
        ("statements", "statements per write, compared"),
        ("goodput", "goodput, compared"),
    )
    for axis, (what, title) in zip(axes, panels, strict=True):
        found = _by_strategy(report, what)
        for name in ("retry with jitter", "mutate (as shipped)"):
            points = sorted(
                (int(where.removeprefix("load ").removesuffix("%")), value, found["select_for_update"][where])
                for where, value in found[name].items()
                if where.startswith("load")
            )
            loads, values, base = zip(*points, strict=True)
            if what != "conflicts":
                values = tuple(value / one for value, one in zip(values, base, strict=True))
            axis.plot(loads, values, marker="o", color=COLOURS[name], label=name)
        if what == "conflicts":
            axis.axhline(LINE, color="#cf222e", linestyle=":", label="5 %")
        else:
            axis.axhline(1, color=COLOURS["select_for_update"], linewidth=1, label="select_for_update")
        axis.set(title=title, xlabel="load, % of what select_for_update manages", xlim=(0, None))
        axis.set(yscale="log") if what == "p99_ms" else axis.set(ylim=(0, None))
        axis.legend(fontsize="small")
    _finish(figure, report, target)


def _strategies(report: dict[str, Any], target: Path) -> None:
    """Draw how each strategy does under each load."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    scenarios = [f"load {share}%" for share in (30, 60, 80)] + ["burst of 32", "saturated"]
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.5), layout="constrained")
    titles = (("goodput", "accepted writes a second"), ("p99_ms", "99th percentile, ms"), ("lost", "lost updates"))
    for axis, (what, title) in zip(axes, titles, strict=True):
        found = _by_strategy(report, what)
        width = 0.8 / len(found)
        for number, (name, colour) in enumerate((n, c) for n, c in COLOURS.items() if n in found):
            heights = [found[name].get(scenario, 0.0) for scenario in scenarios]
            places = [place - 0.4 + (number + 0.5) * width for place in range(len(scenarios))]
            axis.bar(places, heights, width, color=colour, label=name)
        axis.set_xticks(range(len(scenarios)), scenarios, rotation=20)
        axis.set(title=title, yscale="log" if what == "p99_ms" else "linear")
    axes[0].legend(fontsize="small")
    _finish(figure, report, target)


def _finish(figure: Any, report: dict[str, Any], target: Path) -> None:
    from matplotlib import pyplot

    figure.suptitle(
        f"One row, {report['writers']} processes, {report['database']}, {report['cores']} cores, "
        f"Django {report['django']}",
        fontsize="medium",
    )
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).parent / "results")

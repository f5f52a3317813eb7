"""Makes a picture of what a command printed.

``COLUMNS=120 FORCE_COLOR=1 make demo ARGS=--exit | python docs/terminal.py docs/how-to/img/demo.svg``

Shows the last lines, from the one that holds ``--from`` on. The picture is SVG with text, and fetches nothing.
"""

import argparse
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # rich's name a server to fetch the font from


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--from", dest="start", default="Act three", help="where to begin (default: Act three)")
    parser.add_argument("--title", default="make demo")
    options = parser.parse_args()

    lines = sys.stdin.read().splitlines()
    begin = next((n for n, line in enumerate(lines) if options.start in line), None)
    if begin is None:
        parser.error(f"no line holds {options.start!r}: pipe the output of the demo into this command")
    shown = [Text.from_ansi(line.rstrip()) for line in lines[begin:]]
    console = Console(record=True, width=max(line.cell_len for line in shown), file=io.StringIO())
    for line in shown:
        console.print(line, no_wrap=True)
    svg = FONT_FACE.sub("", console.export_svg(title=options.title, unique_id="demo"))
    options.picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main()

"""The code blocks of a Markdown file, as a project that can be run.

A block whose first line is ``# <app>/<module>.py`` is that file of a project, appended to what an earlier block put
there; with ``, at the end`` behind it, what is added to a file that ``startproject`` made. Any other Python block is a
script, run in the project's shell in the order of the file; each ``# prints: TEXT`` in it says what the ``print`` of
that line printed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"\A# (\w+/\w+\.py)(?:, at the end)?\n")
PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The files and the script of one document, and what the script is to print."""

    files: dict[str, str]
    script: str
    prints: list[str]


def read(document: Path) -> Blocks:
    """Return the blocks of ``document``."""
    files: dict[str, str] = {}
    scripts: list[str] = []
    for block in BLOCK.findall(document.read_text()):
        file = FILE.match(block)
        if file:
            files[file[1]] = files.get(file[1], "") + block
        else:
            scripts.append(block)
    script = "\n".join(scripts)
    return Blocks(files=files, script=script, prints=PRINTS.findall(script))

"""Follows a page as a newcomer does: writes its files, types its commands, pastes its Python into a shell.

What is installed is the wheel of this checkout, into the empty environment that the page has made; nothing else of the
checkout is within reach.
"""

import os
import re
import shlex
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import PRINTS
from tests.docs.projects import LOGGED
from tests.kit.processes import ManagedProcess, Processes
from tests.kit.waiting import eventually

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"\A# (\w+/\w+\.py)(, at the end)?\n")
SERVER = "python manage.py runserver"
# What Django itself logs of requests that a page's script makes.
REQUEST_LOGGED = re.compile(r"(Conflict|Precondition Required): /")
ACTIVATE = "source .venv/bin/activate"
DISTRIBUTION = re.compile(r'"django-occ(\[[\w,]+\])?"')


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line that is typed, and what it prints; ``...`` stands for anything, an empty expectation too."""

    line: str
    expected: str


def command(line: str) -> Command:
    return Command(line=line, expected="")


def commands(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        yield Command(line=line, expected=expected.strip())


def matches(expected: str, output: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.split("...")))
    return not expected or re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


class Reader:
    """Somebody with an empty folder, a page and a wheel, on a port of their own."""

    def __init__(self, folder: Path, processes: Processes, *, wheel: Path, port: int) -> None:
        self.folder = folder
        self.wheel = wheel
        self.port = port
        self.site = f"http://127.0.0.1:{port}"
        self._processes = processes
        self._server: ManagedProcess | None = None
        self._environment = {
            "DJANGO_SETTINGS_MODULE": "mysite.settings",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": "",
            "PYTHONUNBUFFERED": "1",
        }

    def follow(self, text: str) -> None:
        """Do what the blocks of ``text`` say, and compare what they say that one will see."""
        for kind, block in BLOCK.findall(text):
            if kind == "console":
                for command in commands(block):
                    self.type(command)
            elif file := FILE.match(block):
                self.write(file[1], block, at_the_end=bool(file[2]))
            else:
                self.paste(block)

    def write(self, name: str, text: str, *, at_the_end: bool) -> None:
        path = self.folder / name
        known = path.exists()
        path.write_text(path.read_text() + text if at_the_end else text)
        if known and self._server is not None:
            self._serve()  # as its reloader would; it looks at no file that is new

    def paste(self, script: str) -> None:
        output = self._run(f"python manage.py shell --no-imports --command {shlex.quote(script)}")
        printed = [line for line in output.splitlines() if not LOGGED.match(line) and not REQUEST_LOGGED.match(line)]
        assert printed == PRINTS.findall(script)

    def type(self, command: Command) -> None:
        if command.line == ACTIVATE:
            self._environment["PATH"] = f"{self.folder}/.venv/bin:{self._environment['PATH']}"
            return
        if command.line == SERVER:
            self._serve()
            return
        if command.line.startswith("python -m pip install "):
            self._run(DISTRIBUTION.sub(rf'"django-occ\1 @ {self.wheel.as_uri()}"', command.line))
            self._environment["PYTHONWARNINGS"] = "error"
            return
        output = self._run(command.line.replace("http://127.0.0.1:8000", self.site))
        output = output.replace("\r\n", "\n")
        assert matches(command.expected, output), f"{command.line}\n{output}\ninstead of\n{command.expected}"

    def _run(self, line: str) -> str:
        done = self._processes.start("sh", "-c", line, env=self._environment, cwd=self.folder)
        assert done.wait(timeout=300) == 0, done.output
        return done.output

    def _serve(self) -> None:
        if self._server is not None:
            self._server.terminate()
        line = ["exec", *SERVER.split(), str(self.port), "--noreload"]
        self._server = self._processes.start("sh", "-c", " ".join(line), env=self._environment, cwd=self.folder)
        eventually(self._answers, timeout=120, what="an answer of the tutorial's server")

    def _answers(self) -> bool:
        assert self._server is not None and self._server.returncode is None, self._server and self._server.output
        try:
            with urllib.request.urlopen(f"{self.site}/deployments/", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

"""Child processes of a test: started with a log, ended by pid, whatever the test does."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from .waiting import eventually

ROOT = Path(__file__).resolve().parents[2]


class ManagedProcess:
    """A command that runs in a session of its own, with its output in a file.

    Signals go to the main process alone unless a method says otherwise: a SIGTERM to the whole group makes Celery's
    prefork pool hang.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path = ROOT) -> None:
        self.argv = list(argv)
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                self.argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def children(self) -> list[int]:
        """The pids of all processes that it started and that still run, its grandchildren too."""
        return _descendants(self.pid)

    def wait_for_output(self, text: str, *, timeout: float = 30.0) -> None:
        """Return once ``text`` has been printed; AssertionError with the whole output if that does not happen."""

        def printed() -> bool:
            ended = self.returncode is not None
            if text in self.output:
                return True
            assert not ended, f"{self.argv} ended with {self.returncode} before it printed {text!r}:\n{self.output}"
            return False

        try:
            eventually(printed, timeout=timeout, what=f"{text!r} in the output of {self.argv}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def wait(self, *, timeout: float = 30.0) -> int:
        """Return the exit status once it has ended by itself."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} still runs after {timeout:g} s:\n{self.output}") from None

    def terminate(self, *, timeout: float = 30.0) -> int:
        """Ask the main process to end cleanly (SIGTERM) and return its exit status."""
        self._signal(signal.SIGTERM)
        return self.wait(timeout=timeout)

    def kill(self) -> None:
        """End it and all its children at once (SIGKILL), as a power cut does."""
        for pid in self._tree():
            _send(pid, signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Stop it and its children where they are (SIGSTOP), as a long garbage collection or a live migration does."""
        for pid in self._tree():
            _send(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._tree():
            _send(pid, signal.SIGCONT)

    def _tree(self) -> list[int]:
        return [] if self.returncode is not None else [self.pid, *self.children]

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            _send(self.pid, number)


class Processes:
    """The processes of one test: each inherits the environment of its moment, with ``env`` over it."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.env = dict(env or {})
        self._started: list[ManagedProcess] = []

    def start(self, *argv: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> ManagedProcess:
        """Start a command in folder ``cwd``; ``env`` goes over everything else."""
        log = self.folder / f"{len(self._started)}-{Path(argv[0]).name}.log"
        process = ManagedProcess(argv, env={**os.environ, **self.env, **(env or {})}, log=log, cwd=cwd)
        self._started.append(process)
        return process

    def python(self, *argv: str, env: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start this interpreter with ``argv``, for example ``("-m", "celery", ...)``; output is not buffered."""
        return self.start(sys.executable, "-u", *argv, env=env)

    def manage(self, *argv: str, env: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start ``manage.py`` with ``argv``."""
        return self.python("manage.py", *argv, env=env)

    def close(self) -> None:
        """Kill what still runs, and show the last lines of every log: pytest prints them beside a failure."""
        for process in reversed(self._started):
            process.kill()
        for process in self._started:
            print(f"---- {process.log.name}: {' '.join(process.argv)}")
            print("\n".join(process.output.splitlines()[-40:]))


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue  # the thread has ended
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.fixture
def plain_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Start commands that need neither database nor broker of the test."""
    processes = Processes(tmp_path_factory.mktemp("processes"))
    yield processes
    processes.close()

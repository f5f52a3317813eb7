"""Start, watch and stop the demo's processes; whatever happens, none of them outlives it.

Knows nothing of what they run.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

GRACE_SECONDS = 10.0  # for a worker to finish what it holds; then it is killed
LEASH = Path(__file__).with_name("leash.py")


class ProcessDied(Exception):
    """A process of the demo ended by itself, or did not come up.

    Attributes:
        name: which.
        log: where its output is.
    """

    def __init__(self, process: "Process", problem: str) -> None:
        self.name = process.name
        self.log = process.log
        super().__init__(f"{process.name} {problem}: {process.last_words()} (all of it: {process.log})")


class Process:
    """One running command, in a process group of its own, its output in a log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        environment: Mapping[str, str],
        fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the commands are the demo's own
                [*leash, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **environment},
                pass_fds=fds,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process's id, which is its group's too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def require_running(self) -> None:
        """Raise ``ProcessDied`` with its last words if it has ended."""
        if not self.running:
            raise ProcessDied(self, f"ended with status {self._process.returncode}")

    def tell(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe, see above
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProcessDied(self, "no longer listens") from None

    def terminate(self) -> None:
        """Ask it to end. Only the main process is told: a signal to all of a Celery worker's group makes it hang."""
        if self.running:
            self._process.terminate()

    def kill(self) -> None:
        """End it and all that it started, at once (kill -9)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long; then kill it. Its children are gone afterwards either way."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
        self.kill()

    def last_words(self) -> str:
        """Return the last line it logged."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


class Supervisor:
    """The processes of one demo; leaving its ``with`` block stops them all."""

    def __init__(self, logs: Path, *, cwd: Path) -> None:
        self._logs = logs
        self._cwd = cwd
        self._processes: list[Process] = []

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave half of them running.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a command; its output goes to ``<name>.log``."""
        process = Process(
            name,
            command,
            log=self._logs / f"{name.replace(' ', '-')}.log",
            cwd=self._cwd,
            environment=environment or {},
            fds=fds,
        )
        self._processes.append(process)
        return process

    def require_all_running(self) -> None:
        """Raise ``ProcessDied`` for the first process that has ended by itself."""
        for process in self._processes:
            process.require_running()

    def kill(self, process: Process) -> None:
        """Kill -9 a process and its children, on purpose."""
        self._processes.remove(process)
        process.kill()

    def stop(self, *processes: Process, grace: float = GRACE_SECONDS) -> None:
        """Stop these processes, or all: ask each to end, kill those that have not after ``grace`` seconds."""
        stopping = list(processes or self._processes)
        for process in stopping:
            process.terminate()
        deadline = time.monotonic() + grace
        for process in stopping:
            process.wait(deadline - time.monotonic())
            self._processes.remove(process)

"""No process outlives the demo, however that ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.deployments.demo.processes import ProcessDied, Supervisor
from tests.kit.waiting import eventually

# Prints its own id and its child's, then waits for ever; the child too.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
# Does not end when it is asked to.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
# A demo in small: starts a family under a supervisor, prints the ids, waits to be killed.
DEMO = f"""
import sys, time
from pathlib import Path
from project.deployments.demo.processes import Supervisor
with Supervisor(Path(sys.argv[1]), cwd=Path(sys.argv[1])) as supervisor:
    supervisor.start("family", [sys.executable, "-c", {FAMILY!r}])
    print("started", flush=True)
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def family_in(log: Path) -> tuple[int, int]:
    def whole_line() -> list[str]:
        text = log.read_text() if log.exists() else ""
        return text.split() if text.endswith("\n") else []  # an unbuffered print writes word by word

    parent, child = eventually(whole_line, what="the family's ids")
    return int(parent), int(child)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back the signal handlers that leaving a supervisor's block sets."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_leaving_the_block_ends_every_process_and_its_children(tmp_path: Path, handlers: None) -> None:
    with Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        supervisor.start("family", [sys.executable, "-c", FAMILY])
        parent, child = family_in(tmp_path / "family.log")

    eventually(lambda: not alive(parent) and not alive(child))


def test_an_error_in_the_block_ends_them_too(tmp_path: Path, handlers: None) -> None:
    with pytest.raises(ZeroDivisionError), Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        process = supervisor.start("family", [sys.executable, "-c", FAMILY])
        raise ZeroDivisionError

    assert not alive(process.pid)


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path, handlers: None) -> None:
    with Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        process = supervisor.start("stubborn", [sys.executable, "-c", STUBBORN])
        eventually(lambda: "ready" in process.log.read_text())

        supervisor.stop(process, grace=0.1)

        assert not alive(process.pid)


def test_a_kill_takes_the_children_along(tmp_path: Path, handlers: None) -> None:
    with Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        process = supervisor.start("family", [sys.executable, "-c", FAMILY])
        parent, child = family_in(process.log)

        supervisor.kill(process)

        supervisor.require_all_running()
        eventually(lambda: not alive(parent) and not alive(child))


def test_a_process_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path, handlers: None) -> None:
    with Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        process = supervisor.start("web server", [sys.executable, "-c", "raise SystemExit('no such module')"])
        eventually(lambda: not process.running)

        with pytest.raises(ProcessDied) as raised:
            supervisor.require_all_running()

    log = tmp_path / "web-server.log"
    assert str(raised.value) == f"web server ended with status 1: no such module (all of it: {log})"
    assert (raised.value.name, raised.value.log) == ("web server", log)


def test_a_line_is_told_over_standard_input(tmp_path: Path, handlers: None) -> None:
    with Supervisor(tmp_path, cwd=tmp_path) as supervisor:
        process = supervisor.start("echo", [sys.executable, "-u", "-c", "print(input())"])

        process.tell("begin")

        eventually(lambda: process.log.read_text() == "begin\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_even_a_demo_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DEMO, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        parent, child = family_in(tmp_path / "family.log")

        demo.send_signal(signal.SIGKILL)

    eventually(lambda: not alive(parent))
    os.kill(child, signal.SIGKILL)  # a grandchild is its own parent's to end; gunicorn and Celery see to theirs

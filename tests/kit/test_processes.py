"""The kit's child processes."""

import pytest

from .processes import Processes
from .waiting import eventually

SLEEPER = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print('up'); time.sleep(60)"


def test_a_killed_process_takes_its_children_with_it(plain_processes: Processes) -> None:
    process = plain_processes.python("-c", SLEEPER)
    process.wait_for_output("up")
    (child,) = process.children

    process.kill()

    assert process.returncode == -9
    assert eventually(lambda: _is_gone(child))


def test_terminate_asks_the_main_process_and_returns_its_status(plain_processes: Processes) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *a: sys.exit(7)); print('up'); time.sleep(60)"
    process = plain_processes.python("-c", code)
    process.wait_for_output("up")

    status = process.terminate()

    assert status == 7


def test_a_paused_process_goes_on_where_it_was(plain_processes: Processes) -> None:
    code = "import time\nfor n in range(1000): print(n); time.sleep(0.01)"
    process = plain_processes.python("-c", code)
    process.wait_for_output("5\n")

    process.pause()
    eventually(lambda: _state(process.pid) == "T")
    before = process.output
    process.resume()

    eventually(lambda: len(process.output) > len(before))


def test_output_that_never_comes_fails_with_what_came_instead(plain_processes: Processes) -> None:
    process = plain_processes.python("-c", "print('something else')")

    with pytest.raises(AssertionError, match=r"(?s)ended with 0 before it printed 'hello'.*something else"):
        process.wait_for_output("hello")


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0]


def _is_gone(pid: int) -> bool:
    try:
        return _state(pid) == "Z"
    except FileNotFoundError:
        return True

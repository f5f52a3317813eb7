"""Worker processes on the test's own database and broker."""

import pytest

from tests.library.models import Author

from .failpoints import Failpoints
from .processes import Processes
from .workers import StartsProcess

pytest.importorskip("celery")

UNKNOWN = "No reconciler is named 'Nobody'"


def ask_for_nobody() -> None:
    """Send the one message that every worker answers in its log and that changes nothing."""
    from project.celery import app

    app.send_task("reconcilers.run", ["Nobody", "1"])


def test_a_worker_takes_messages_of_this_process_and_ends_cleanly(celery_worker: StartsProcess) -> None:
    worker = celery_worker()

    ask_for_nobody()
    worker.wait_for_output("A message was left alone")
    status = worker.terminate()

    assert status == 0


def test_a_new_worker_takes_over_after_a_kill(celery_worker: StartsProcess) -> None:
    celery_worker().kill()
    ask_for_nobody()

    worker = celery_worker()

    worker.wait_for_output("A message was left alone")


def test_a_process_works_on_the_database_of_the_test(processes: Processes) -> None:
    Author.objects.create(name="Ursula")
    code = "from tests.library.models import Author; print(*Author.objects.values_list('name', flat=True))"

    shell = processes.manage("shell", "--command", code)

    assert (shell.wait(), shell.output.strip().splitlines()[-1]) == (0, "Ursula")


def test_failpoints_are_in_a_process_that_a_test_starts(failpoints: Failpoints, processes: Processes) -> None:
    armed = failpoints.arm("before_claim", "die")

    process = processes.manage("shell", "--command", "from reconcilers.workqueue import steps; steps.claim(None, '1')")

    assert (process.wait(), armed.wait_until_reached()) == (-9, process.pid)

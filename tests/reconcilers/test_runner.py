"""``runreconcilers``: told to end at any moment, fair to everybody, and what it holds at once."""

from __future__ import annotations

from typing import Any

import pytest

from reconcilers import Reconciler
from reconcilers.management.runner import Runner, Stop
from reconcilers.models import WorkItem
from reconcilers.registry import all_reconcilers
from reconcilers.workqueue.sql import DatabaseNow
from tests.kit.processes import Processes
from tests.library.models import Counter, Shelf
from tests.reconcilers.conftest import Register

# A signal before each line that waiting runs: with a lock among them, its handler would wait for this very thread.
SIGNALS = """
import os, signal, sys
from reconcilers.management.runner import Stop

left = 0

def trace(frame, event, arg):
    global left
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
    return trace

told = 0
for moment in range(1, 41):
    stop, left = Stop(), moment
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    sys.settrace(trace)
    stop.wait(0.01)
    sys.settrace(None)
    told += stop.is_set()
print("told", told > 2)
"""


def test_a_signal_at_any_moment_of_its_waiting_is_heard(plain_processes: Processes) -> None:
    waiting = plain_processes.manage("shell", "--no-imports", "--command", SIGNALS)

    assert (waiting.wait(), waiting.output.splitlines()[-1]) == (0, "told True")


@pytest.fixture
def order(register: Register) -> list[str]:
    """The names of the reconcilers Busy and Quiet, of two models, in the order of their runs."""
    ran: list[str] = []

    def note(self: Reconciler, obj: Any) -> None:
        ran.append(self.name)

    for name, model in (("Busy", Counter), ("Quiet", Shelf)):
        register(type(name, (Reconciler,), {"model": model, "resync": None, "reconcile": note}))
    return ran


@pytest.mark.django_db(transaction=True)
def test_a_busy_reconciler_does_not_starve_another(order: list[str]) -> None:
    for _ in range(12):
        Counter.objects.create()
    WorkItem.objects.update(due_at=DatabaseNow(-60))
    Shelf.objects.create(code="quiet")

    Runner(all_reconcilers(), ["default"], stop=Stop(), batch=5).work_once()

    assert order == ["Busy"] * 5 + ["Quiet"]


@pytest.mark.django_db(transaction=True)
def test_what_a_dead_worker_held_is_taken_key_by_key_before_what_waits(order: list[str]) -> None:
    for _ in range(4):
        Counter.objects.create()
    WorkItem.objects.update(due_at=None, lease_until=DatabaseNow(-1), lease_token=1, attempts=1)
    for _ in range(3):
        Counter.objects.create()
    held: list[int] = []
    runner = Runner(all_reconcilers(), ["default"], stop=Stop())
    genuine = all_reconcilers()[0].reconcile

    def look(obj: Any) -> None:
        held.append(WorkItem.objects.filter(lease_until__gt=DatabaseNow()).count())
        genuine(obj)

    all_reconcilers()[0].reconcile = look  # type: ignore[method-assign]

    runner.work_once()

    assert held == [1, 1, 1, 1, 3, 2, 1]
    assert not WorkItem.objects.exclude(lease_until=None).exists()

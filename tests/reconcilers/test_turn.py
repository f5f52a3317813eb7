"""One turn for one key: what is written, and what becomes of the item."""

from __future__ import annotations

import pytest

from occ import Backoff
from reconcilers import Reconciler, Result, TerminalError
from reconcilers.controller import Outcome, turn
from reconcilers.models import WorkItem
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_save_is_reconciled_and_its_own_write_runs_it_once_more(register: Register) -> None:
    runs = []

    @register
    class Doubler(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            runs.append((counter.value, counter.version))
            counter.value = 10

    counter = Counter.objects.create(value=1)

    outcomes = [turn(Doubler, counter.pk) for _ in range(3)]

    counter.refresh_from_db()
    assert outcomes == [Outcome.DONE, Outcome.DONE, Outcome.NOT_DUE]
    assert runs == [(1, 1), (10, 2)]
    assert (counter.value, counter.version) == (10, 2)
    item = WorkItem.objects.get()
    assert (item.attempts, item.observed_version, item.lease_until) == (0, 2, None)


def test_errors_back_off_and_park(register: Register) -> None:
    @register
    class Broken(Reconciler):
        model = Counter
        backoff = Backoff(base=60, jitter="none", cap=300)

        def reconcile(self, counter: Counter) -> None:
            raise TerminalError("no such thing")

    counter = Counter.objects.create(value=1)

    assert turn(Broken, counter.pk) == Outcome.PARKED

    item = WorkItem.objects.get()
    assert item.last_error == "TerminalError: no such thing"
    assert item.due_at is None
    counter.save()
    item.refresh_from_db()
    assert item.parked_at is None
    assert item.due_at == item.not_before


def test_requeue(register: Register) -> None:
    @register
    class Again(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> Result:
            return Result(requeue_after=0)

    counter = Counter.objects.create(value=1)

    assert [turn(Again, counter.pk) for _ in range(3)] == [Outcome.DONE] * 3

    counter.delete()
    assert turn(Again, WorkItem.objects.get().key) == Outcome.GONE
    assert not WorkItem.objects.exists()

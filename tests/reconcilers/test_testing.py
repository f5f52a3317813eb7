"""What users test their reconcilers with."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest

from occ import Backoff
from reconcilers import Reconciler, Result
from reconcilers.models import WorkItem
from reconcilers.testing import InlineRunner, assert_idempotent, conflicts, not_mutated
from tests.library.models import Book, Counter

pytestmark = pytest.mark.django_db


class Settler(Reconciler):
    model = Counter
    resync = dt.timedelta(hours=10)

    def reconcile(self, counter: Counter) -> None:
        counter.value = max(counter.value, 10)


def test_a_resync_comes_due_on_the_fake_clock() -> None:
    with InlineRunner(Settler) as runner:
        counter = Counter.objects.create(value=1)
        turn = ("Settler", str(counter.pk), "done")

        at_once = runner.run()
        runner.advance(hours=8)
        before = runner.run()
        runner.advance(dt.timedelta(hours=4))
        after = runner.run()

    assert (at_once, before, after) == ([turn, turn], [], [turn])


def test_reconcilers_that_never_rest_are_reported() -> None:
    class Restless(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> Result:
            return Result(requeue_after=0)

    with InlineRunner(Restless, limit=20) as runner:
        Counter.objects.create()

        with pytest.raises(AssertionError, match="Still not at rest after 21 turns"):
            runner.run()


def test_an_idempotent_reconciler_passes_and_leaves_no_trace() -> None:
    counter = Counter.objects.create(value=1)

    assert_idempotent(Settler, counter)

    counter.refresh_from_db()
    assert (counter.value, counter.version) == (1, 1)


def test_a_reconciler_that_is_not_idempotent_is_named_with_its_field() -> None:
    class Adder(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            counter.value += 1

    counter = Counter.objects.create(value=1)

    with pytest.raises(AssertionError, match=r"Adder is not idempotent: .* changed \{'value': \(2, 3\)\}"):
        assert_idempotent(Adder, counter)


def test_injected_conflicts_make_it_read_again() -> None:
    versions = []

    class Noting(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            versions.append(counter.version)
            counter.value = 10

    with InlineRunner(Noting) as runner, conflicts(Noting, times=2):
        counter = Counter.objects.create(value=1)

        outcomes = [outcome for _, _, outcome in runner.run()]

    counter.refresh_from_db()
    assert (outcomes, versions) == (["done", "done"], [1, 1, 1, 2])
    assert (counter.value, counter.version) == (10, 2)


def test_more_conflicts_than_retries_wait_for_the_backoff() -> None:
    class Contested(Reconciler):
        model = Counter
        conflict_retries = 1
        backoff = Backoff(base=300, jitter="none", cap=300)

        def reconcile(self, counter: Counter) -> None:
            counter.value = 10

    with InlineRunner(Contested) as runner, conflicts(Contested, times=2):
        Counter.objects.create(value=1)

        at_once = [outcome for _, _, outcome in runner.run()]
        runner.advance(seconds=200)
        during = runner.run()
        runner.advance(seconds=101)
        after = [outcome for _, _, outcome in runner.run()]

    assert (at_once, during, after) == (["conflict"], [], ["done", "done"])
    assert WorkItem.objects.get().attempts == 0


def test_a_change_of_a_shared_object_is_detected() -> None:
    book = Book.objects.create(title="It", details={"pages": [1, 2]})
    fine: Any = itertools.count()

    with not_mutated(book):
        next(fine)
    detected = pytest.raises(AssertionError, match=f"library.Book {book.pk} is shared, and its details was changed")
    with detected, not_mutated(book):
        book.details["pages"].append(3)

"""What is counted, under which names, and what counting costs."""

from __future__ import annotations

import threading

import pytest

import occ
from occ.contention.counting import MOST_WRITERS, OTHERS, Counters, counters
from occ.signals import write_observers
from occ.testing import conflict_on_write, write_behind
from reconcilers import Reconciler
from reconcilers.controller import turn
from tests.kit.costs import calls_of
from tests.library.models import Book, Counter
from tests.reconcilers.conftest import Register, register  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


def counted() -> dict[tuple[str, str, str], list[int]]:
    return counters.drain()[0]


def test_accepted_and_refused_writes_are_counted_per_model_and_manager() -> None:
    counter, book = Counter.objects.create(), Book.objects.create()
    stale = Counter.objects.get(pk=counter.pk)

    with occ.field_manager("billing"):
        counter.save()
    with pytest.raises(occ.Conflict):
        stale.save()
    book.save()

    assert counted() == {
        ("library.Counter", "", "billing"): [1, 0],
        ("library.Counter", "", "unknown"): [0, 1],
        ("library.Book", "", "unknown"): [1, 0],
    }


def test_a_retried_mutate_is_one_write_and_as_many_conflicts_as_it_met() -> None:
    counter = Counter.objects.create()

    with conflict_on_write(Counter, times=2):
        Counter.objects.mutate(counter.pk, lambda copy: setattr(copy, "value", 3))

    assert counted() == {("library.Counter", "", "unknown"): [1, 2]}


def test_what_writes_nothing_or_cannot_be_refused_is_not_counted() -> None:
    counter = Counter.objects.create()

    Counter.objects.mutate(counter.pk, lambda copy: None)
    Counter.objects.filter(pk=counter.pk).update(value=5)
    Counter.objects.create()

    assert counted() == {}


def test_an_object_that_changed_its_key_is_a_mistake_and_no_conflict() -> None:
    counter = Counter.objects.create()
    counter.pk += 1

    with pytest.raises(occ.Conflict):
        counter.save()

    assert counted() == {}


def test_each_stale_row_of_a_bulk_update_counts() -> None:
    rows = [Counter.objects.create() for _ in range(3)]
    for row in rows[1:]:
        write_behind(row)

    with pytest.raises(occ.BulkConflict):
        Counter.objects.bulk_update(rows, ["value"])

    assert counted() == {("library.Counter", "", "unknown"): [0, 2]}


def test_the_writes_of_a_reconciler_go_under_its_name(register: Register) -> None:  # noqa: F811
    @register
    class Raise(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            counter.value = 7

    counter = Counter.objects.create()

    turn(Raise, counter.pk)

    assert {(model, reconciler): tally for (model, reconciler, _), tally in counted().items()} == {
        ("library.Counter", "Raise"): [1, 0]
    }


def test_people_are_counted_together() -> None:
    counter = Counter.objects.create()

    for user in ("user:1", "user:2"):
        with occ.field_manager(user):
            counter.save()

    assert counted() == {("library.Counter", "", "user"): [2, 0]}


def test_memory_stays_bounded_however_many_writers_there_are() -> None:
    for number in range(MOST_WRITERS + 50):
        with occ.field_manager(f"job-{number}"):
            counters.count_writes(Counter, 1)

    found = counted()
    assert len(found) == MOST_WRITERS + 1
    assert found["library.Counter", "", OTHERS] == [50, 0]


def test_threads_lose_no_count() -> None:
    fresh = Counters()

    def count() -> None:
        for _ in range(20_000):
            fresh.count_writes(Counter, 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert fresh.drain()[0] == {("library.Counter", "", "unknown"): [80_000, 0]}


def test_counting_makes_at_most_six_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book.objects.create()
    counting = calls_of(book.save)
    observers = write_observers[:]
    write_observers.clear()
    try:
        without = calls_of(book.save)
    finally:
        write_observers[:] = observers

    assert counters.count_writes in observers
    assert counting - without <= 6, (counting, without)


def test_counting_issues_no_statement(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    counter = Counter.objects.create()

    with django_assert_num_queries(100):
        for _ in range(100):
            counter.save()

    assert counted() == {("library.Counter", "", "unknown"): [100, 0]}

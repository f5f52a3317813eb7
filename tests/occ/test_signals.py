"""What the signals and the observers of writes tell, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import occ
from occ.exceptions import BulkConflict
from occ.signals import write_observers
from occ.testing import watch_conflicts, write_behind
from tests.library.models import Counter

pytestmark = pytest.mark.django_db


@pytest.fixture
def written() -> Iterator[list[tuple[str, int]]]:
    """The guarded writes that observers are told of, by model and rows."""
    told: list[tuple[str, int]] = []

    def observe(model: type, rows: int) -> None:
        told.append((model.__name__, rows))

    write_observers.append(observe)
    yield told
    write_observers.remove(observe)


def test_observers_are_told_of_saves_deletes_and_bulk_updates(written: list[tuple[str, int]]) -> None:
    first, second = Counter.objects.create(), Counter.objects.create()

    first.save()
    first.save(update_fields=["value"])
    Counter.objects.mutate(first.pk, lambda counter: setattr(counter, "value", 3))
    Counter.objects.bulk_update([Counter.objects.get(pk=first.pk), second], ["value"])
    second.delete()

    assert written == [("Counter", 1), ("Counter", 1), ("Counter", 1), ("Counter", 2), ("Counter", 1)]


def test_observers_are_not_told_of_what_cannot_conflict_or_writes_nothing(written: list[tuple[str, int]]) -> None:
    counter = Counter.objects.create()

    Counter.objects.filter(pk=counter.pk).update(value=2)
    Counter.objects.mutate(counter.pk, lambda counter: None)
    with pytest.raises(occ.Conflict):
        counter.save()

    assert written == []


def test_a_refused_bulk_update_is_told_once_with_all_its_rows() -> None:
    counters = [Counter.objects.create() for _ in range(3)]
    for counter in counters[:2]:
        write_behind(counter)

    with watch_conflicts() as met, pytest.raises(BulkConflict):
        Counter.objects.bulk_update(counters, ["value"])

    (conflict,) = met
    assert isinstance(conflict, BulkConflict)
    assert [stale.pk for stale in conflict.conflicts] == [counter.pk for counter in counters[:2]]

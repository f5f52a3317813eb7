"""Counters that start from zero, and tables to look into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from occ.contention.counting import counters
from occ.contention.flushing import Flusher
from occ.contention.models import MINUTE, Bucket

NOON = 1_800_000_000.0  # a full half hour


class Clock:
    """Seconds since 1970 that only the test moves."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def nothing_counted_yet() -> Iterator[None]:
    counters.drain()
    yield
    counters.drain()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def flusher(transactional_db: None, clock: Clock) -> Flusher:
    """A flusher of the counts of this process, by a clock of the test's own."""
    return Flusher(counters, clock=clock)


def stored(width: int = MINUTE) -> list[tuple[Any, ...]]:
    """The buckets: second after noon, model, reconciler, manager, writes, conflicts."""
    rows = Bucket.objects.filter(width=width).order_by("start", "model", "reconciler", "manager")
    return [(int(row.start - NOON), row.model, row.reconciler, row.manager, row.writes, row.conflicts) for row in rows]

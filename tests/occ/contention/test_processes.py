"""Counting over many processes, a crash and a fork: real processes on the test's own database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from occ.contention.models import MINUTE, Bucket
from tests.kit.processes import ManagedProcess, Processes
from tests.kit.workers import databases_environment
from tests.library.models import Counter

Starts = Callable[[str], ManagedProcess]


@pytest.fixture
def counter(transactional_db: None) -> Counter:
    return Counter.objects.create()


@pytest.fixture
def writer(counter: Counter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    """Start a process that writes the counter."""
    folder = tmp_path_factory.mktemp("writers")
    processes = Processes(folder, databases_environment(folder))
    yield lambda what: processes.python("-m", "tests.occ.contention.writer", what, str(counter.pk))
    processes.close()


def totals() -> tuple[int, int]:
    rows = Bucket.objects.filter(width=MINUTE, model="library.Counter").values_list("writes", "conflicts")
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


def test_the_counts_of_many_processes_are_complete(writer: Starts, counter: Counter) -> None:
    writers = [writer("end") for _ in range(4)]

    assert [each.wait(timeout=120) for each in writers] == [0] * 4, [each.output for each in writers]

    met = sum(int(number) for each in writers for number in re.findall(r"met (\d+)", each.output))
    counter.refresh_from_db()
    assert (counter.value, totals()) == (200, (200, met))


def test_a_killed_process_loses_no_more_than_it_counted_since_its_last_flush(writer: Starts, counter: Counter) -> None:
    killed = writer("crash")

    assert killed.wait(timeout=120) == -9, killed.output

    counter.refresh_from_db()
    assert counter.value == 55
    assert 50 <= totals()[0] <= 55


def test_a_forked_process_stores_its_own_counts_once(writer: Starts, counter: Counter) -> None:
    forking = writer("fork")

    assert forking.wait(timeout=120) == 0, forking.output

    counter.refresh_from_db()
    assert (counter.value, totals()[0]) == (62, 62)

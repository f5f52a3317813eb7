"""Many writers on one row: every increment counts, exactly."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

import occ
from tests.kit.processes import Processes
from tests.library.models import Book, Counter

pytestmark = pytest.mark.django_db(transaction=True)

THREADS, PROCESSES, EACH = 8, 4, 50


def add_one(counter: Counter) -> None:
    counter.value += 1


def in_threads(work: Callable[[int], object], number: int) -> list[object]:
    start = threading.Barrier(number)

    def run(index: int) -> object:
        try:
            start.wait(30)
            return work(index)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def test_threads_incrementing_one_row_lose_nothing():
    counter = Counter.objects.create()

    def increment(index: int) -> None:
        for _ in range(EACH):
            Counter.objects.mutate(counter.pk, add_one)

    in_threads(increment, THREADS)

    assert Counter.objects.values_list("value", "version").get() == (THREADS * EACH, 1 + THREADS * EACH)


def test_processes_incrementing_one_row_lose_nothing(processes: Processes):
    counter = Counter.objects.create()
    script = (
        "import django; django.setup()\n"
        "from tests.races.test_counters import Counter, add_one\n"
        f"for _ in range({EACH}): Counter.objects.mutate({counter.pk}, add_one)\n"
    )

    writers = [processes.python("-c", script) for _ in range(PROCESSES)]
    codes = [writer.wait(timeout=120) for writer in writers]

    assert codes == [0] * PROCESSES
    assert Counter.objects.values_list("value", "version").get() == (PROCESSES * EACH, 1 + PROCESSES * EACH)


def test_of_many_savers_with_one_version_exactly_one_wins():
    book = Book.objects.create(title="nobody")

    def save(index: int) -> bool:
        mine = Book(pk=book.pk, title=f"writer {index}", version=1)
        try:
            mine.save()
        except occ.Conflict:
            return False
        return True

    outcomes = in_threads(save, THREADS)

    assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
    assert Book.objects.values_list("title", "version").get() == (f"writer {outcomes.index(True)}", 2)

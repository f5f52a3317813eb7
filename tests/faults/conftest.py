"""Real worker processes that run the workload's reconcilers, and what must be true when the dust has settled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connections

from reconcilers import registry
from reconcilers.models import WorkItem
from reconcilers.testing import registered
from reconcilers.workqueue.sql import DatabaseNow
from tests.faults.workload.reconcilers import Mirror, Poison, Targeted, TargetedOutside
from tests.faults.workload.runs import RECORD, RunRecord
from tests.kit.brokers import pointed_at
from tests.kit.servers import Server
from tests.kit.waiting import eventually
from tests.kit.workers import StartsProcess
from tests.library.models import Book

WORKLOAD = (Mirror, Poison, Targeted, TargetedOutside)
# One of whose model the tests that ask for a sweeper change nothing.
NOT_CHANGED = Targeted.name
# Their module registers them as it is imported, for the workers' sake; other tests of this process must not run them.
for _reconciler in WORKLOAD:
    registry.unregister(_reconciler)


@pytest.fixture(autouse=True)
def workload() -> Iterator[None]:
    """Register the workload's reconcilers here too, so that the writes of the test ask for their runs."""
    with registered(*WORKLOAD):
        yield


@pytest.fixture
def worker_environment(workload: None) -> dict[str, str]:
    """What the worker processes need to know the workload."""
    return {
        "DJANGO_SETTINGS_MODULE": "tests.faults.worker_settings",
        "OCC_LEASE_SECONDS": "4",
        "OCC_SWEEP_SECONDS": "0.5",
    }


@pytest.fixture(params=["redis", "rabbitmq"])
def stoppable_broker(request: pytest.FixtureRequest, worker_environment: dict[str, str]) -> Iterator[Server]:
    """A broker of this test's own that it may stop, pause and wipe; the test and its workers use it."""
    server: Server = request.getfixturevalue(f"{request.param}_server")
    with pointed_at(server.url):
        worker_environment["CELERY_BROKER_URL"] = server.url
        yield server


@pytest.fixture(params=["beat", "runreconcilers"])
def sweeper(
    request: pytest.FixtureRequest,
    celery_beat: StartsProcess,
    runreconcilers: StartsProcess,
    worker_environment: dict[str, str],
) -> Callable[[], None]:
    """Call to start what wakes Celery's workers: beat, or a runner elsewhere that itself works none of these keys."""

    def start() -> None:
        if request.param == "beat":
            celery_beat(env=worker_environment)
        else:
            runreconcilers(NOT_CHANGED, env=worker_environment).wait_for_output("Reconciling")

    return start


@pytest.fixture
def runs(tmp_path: Path, worker_environment: dict[str, str]) -> RunRecord:
    """The record of all runs of the workload."""
    record = tmp_path / "runs"
    record.touch()
    worker_environment[RECORD] = str(record)
    return RunRecord(path=record)


class Burst:
    """Threads that raise the stock of books by one, again and again; every accepted write is counted.

    ``slowest`` is how long the slowest of them took, in seconds.
    """

    def __init__(self, books: int, writes: int, threads: int = 2, pause: float = 0.0) -> None:
        self.pks = [Book.objects.create(title=f"book {n}", details={"stock": 0}).pk for n in range(books)]
        self.accepted = dict.fromkeys(self.pks, 0)
        self.slowest = 0.0
        self._writes = writes
        self._pause = pause
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._write, args=(n, threads)) for n in range(threads)]

    @property
    def done(self) -> int:
        with self._lock:
            return sum(self.accepted.values())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for(self, writes: int) -> None:
        eventually(lambda: self._failures or self.done >= writes, timeout=60, what=f"{writes} writes")

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
        if self._failures:
            raise self._failures[0]

    def _write(self, first: int, step: int) -> None:
        try:
            for n in range(first, self._writes, step):
                pk = self.pks[n % len(self.pks)]
                began = time.monotonic()
                Book.objects.mutate(pk, _one_more)
                with self._lock:
                    self.accepted[pk] += 1
                    self.slowest = max(self.slowest, time.monotonic() - began)
                time.sleep(self._pause)
        except BaseException as failure:
            self._failures.append(failure)
        finally:
            connections.close_all()


def _one_more(book: Book) -> None:
    book.stock += 1


def unsettled() -> list[str]:
    """Return the items that still have to run, or are running."""
    items = WorkItem.objects.filter(parked_at=None).annotate(now=DatabaseNow())
    return [
        f"{item}: due {item.due_at}, lease {item.lease_until}, attempts {item.attempts} {item.last_error[:80]}"
        for item in items
        if item.lease_until is not None or (item.due_at is not None and item.due_at <= item.now) or item.attempts
    ]


def settles(timeout: float) -> bool:
    """Tell whether everything gets done within ``timeout`` seconds."""
    try:
        wait_until_settled(timeout)
    except AssertionError as error:
        print(error)
        return False
    return True


def wait_until_settled(timeout: float = 60) -> None:
    """Return once nothing is due and nothing runs."""
    try:
        eventually(lambda: not unsettled(), timeout=timeout, interval=0.1, what="nothing due, nothing running")
    except AssertionError as error:
        raise AssertionError(f"{error}; still there: {unsettled()[:5]}") from None


def assert_all_reconciled(burst: Burst) -> None:
    """Nothing that was accepted is lost, and each object is reconciled at its newest version."""
    books = {book.pk: book for book in Book.objects.filter(pk__in=burst.pks)}
    assert {pk: book.stock for pk, book in books.items()} == burst.accepted
    assert {pk: book.details for pk, book in books.items()} == {
        pk: {"stock": stock} for pk, stock in burst.accepted.items()
    }
    items = {item.key: item.observed_version for item in WorkItem.objects.filter(reconciler="Mirror")}
    assert items == {str(pk): book.version for pk, book in books.items()}

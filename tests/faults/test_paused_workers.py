"""A worker that stops for longer than its lease, and wakes: what it then writes must not land."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from reconcilers.models import WorkItem
from tests.faults.conftest import wait_until_settled
from tests.faults.workload.reconcilers import PAUSE, TARGET
from tests.kit.failpoints import Failpoints
from tests.kit.waiting import eventually
from tests.kit.workers import StartsProcess
from tests.library.models import Book, Category, Counter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", ["Targeted", "TargetedOutside"])
def test_the_write_of_a_worker_that_was_taken_for_dead_does_not_land(
    name: str, tmp_path: Path, runreconcilers: StartsProcess, worker_environment: dict[str, str]
) -> None:
    if connection.vendor == "sqlite" and name == "Targeted":
        pytest.skip("on SQLite whoever is in a transaction has the only write lock: nobody else can take over")
    row: Any = Counter.objects.create(value=7) if name == "Targeted" else Category.objects.create(name="7")
    field = "value" if name == "Targeted" else "name"
    before = getattr(row, field)
    sleeper = runreconcilers(name, env={**worker_environment, TARGET: "99", PAUSE: str(tmp_path)})
    eventually((tmp_path / "reached").exists, timeout=30, what="the first worker is in its run")

    # The other worker wants no change, so the version of the row is still what the sleeper has read.
    other = runreconcilers(name, env=worker_environment)
    eventually(lambda: WorkItem.objects.get(reconciler=name).last_success_at, timeout=30, what="the other is done")
    (tmp_path / "go").touch()
    sleeper.wait_for_output("ran longer than its lease")
    sleeper.terminate()
    wait_until_settled()

    row.refresh_from_db()
    assert (getattr(row, field), row.version) == (before, 1)
    assert other.returncode is None
    item = WorkItem.objects.get(reconciler=name)
    assert (item.observed_version, item.attempts, item.lease_token) == (1, 0, 2)


def test_a_celery_worker_that_is_stopped_past_its_lease_writes_nothing_when_it_wakes(
    failpoints: Failpoints,
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("on SQLite whoever is in a transaction has the only write lock: nobody else can take over")
    sweeper()
    armed = failpoints.arm("before_write", "pause")
    sleeper = celery_worker(concurrency=1, env=worker_environment)
    book = Book.objects.create(title="It", stock=3)
    stopped = armed.wait_until_reached()
    os.kill(stopped, signal.SIGSTOP)
    try:
        celery_worker(concurrency=1, env=worker_environment)
        eventually(lambda: WorkItem.objects.get(reconciler="Mirror").observed_version == 2, what="the other is done")
        Book.objects.mutate(book.pk, _no_stock)
        eventually(lambda: WorkItem.objects.get(reconciler="Mirror").observed_version == 4, what="the newest is done")
        armed.release()
    finally:
        os.kill(stopped, signal.SIGCONT)
    sleeper.wait_for_output("ran longer than its lease")
    wait_until_settled()

    book.refresh_from_db()
    item = WorkItem.objects.get(reconciler="Mirror")
    assert (book.stock, book.details, book.version) == (0, {"stock": 0}, 4)
    assert (item.observed_version, item.attempts) == (4, 0)


def _no_stock(book: Book) -> None:
    book.stock = 0

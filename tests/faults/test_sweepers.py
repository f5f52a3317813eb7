"""Who wakes the workers: nobody's beat is needed, and two do no harm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from reconcilers.models import WorkItem
from tests.faults.conftest import Burst, assert_all_reconciled, wait_until_settled
from tests.faults.workload.runs import STATEMENTS, RunRecord
from tests.kit.failpoints import Failpoints
from tests.kit.waiting import eventually
from tests.kit.workers import StartsProcess
from tests.library.models import Book

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_beats_double_no_run(
    celery_worker: StartsProcess, celery_beat: StartsProcess, worker_environment: dict[str, str], runs: RunRecord
) -> None:
    for _ in range(2):
        celery_beat(env=worker_environment)
    celery_worker(concurrency=2, env=worker_environment)
    burst = Burst(books=20, writes=20)

    burst.start()
    burst.join()
    wait_until_settled()

    # A run for the creation or the write, or one for both; and one for its own write.
    assert_all_reconciled(burst)
    assert runs.overlaps() == []
    assert runs.count("Mirror") <= 20 * 4


def test_without_beat_a_runner_elsewhere_sees_to_what_a_dead_worker_left(
    celery_worker: StartsProcess, runreconcilers: StartsProcess, worker_environment: dict[str, str], runs: RunRecord
) -> None:
    worker = celery_worker(concurrency=2, env=worker_environment)
    killed = {worker.pid, *worker.children}
    burst = Burst(books=20, writes=300)

    burst.start()
    burst.wait_for(100)
    worker.kill()
    runreconcilers(env=worker_environment)
    burst.join()
    wait_until_settled()

    assert_all_reconciled(burst)
    assert runs.overlaps(dead=killed) == []


@pytest.mark.parametrize("who", ["runreconcilers", "celery"])
def test_a_hot_key_is_run_seldom_and_ends_at_its_newest_version(
    who: str, request: pytest.FixtureRequest, worker_environment: dict[str, str], runs: RunRecord, tmp_path: Path
) -> None:
    statements = tmp_path / "statements"
    statements.touch()
    counted = {**worker_environment, STATEMENTS: str(statements)}
    if who == "celery":
        request.getfixturevalue("celery_beat")(env=worker_environment)
        request.getfixturevalue("celery_worker")(concurrency=2, env=counted)
    else:
        request.getfixturevalue("runreconcilers")(env=counted)
    book = Book.objects.create(title="It", details={"stock": 0})
    wait_until_settled()
    runs_before, statements_before = runs.count("Mirror"), statements.stat().st_size
    changes = 500

    began = time.monotonic()
    for change in range(changes):
        Book.objects.mutate(book.pk, _one_more)
        time.sleep(max(0.0, began + change / 50 - time.monotonic()))  # fifty a second, or as many as the machine can
    wait_until_settled()

    book.refresh_from_db()
    item = WorkItem.objects.get(reconciler="Mirror")
    assert (book.stock, book.details) == (changes, {"stock": changes})
    assert (item.observed_version, item.attempts) == (book.version, 0)
    assert runs.overlaps() == []
    # A change runs it once at most, and once more if that run is refused; a run that wrote runs it once more.
    ran = runs.count("Mirror") - runs_before
    assert ran <= 3 * changes + 1
    sent = statements.stat().st_size - statements_before
    print(f"{who}: {changes} changes, {ran} runs, {sent / changes:.1f} statements of the worker per change, with polls")


def _one_more(book: Book) -> None:
    book.stock += 1


def test_a_database_session_that_is_cut_in_mid_run_costs_one_run(
    failpoints: Failpoints, runreconcilers: StartsProcess, worker_environment: dict[str, str]
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no sessions to cut")
    armed = failpoints.arm("before_write", "pause")
    book = Book.objects.create(title="It", stock=3)
    runner = runreconcilers(env=worker_environment)
    armed.wait_until_reached()

    _cut_other_sessions()
    armed.release()
    eventually(lambda: WorkItem.objects.get(reconciler="Mirror").observed_version == 2, what="reconciled")
    wait_until_settled()

    book.refresh_from_db()
    assert (book.details, book.version, runner.returncode) == ({"stock": 3}, 2, None)


def test_database_sessions_of_celery_workers_that_are_cut_in_mid_run_cost_one_run_each(
    failpoints: Failpoints,
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no sessions to cut")
    sweeper()
    worker = celery_worker(concurrency=2, env=worker_environment)
    armed = [failpoints.arm("before_write", "pause") for _ in range(2)]
    books = [Book.objects.create(title=f"book {n}", stock=n) for n in range(4)]
    for one in armed:
        one.wait_until_reached()

    _cut_other_sessions()
    for one in armed:
        one.release()
    eventually(lambda: WorkItem.objects.filter(observed_version=2).count() == len(books), what="all reconciled")
    wait_until_settled()

    settled = Book.objects.order_by("stock").values_list("details", "version")
    assert list(settled) == [({"stock": n}, 2) for n in range(len(books))]
    assert worker.returncode is None


def _cut_other_sessions() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
        for (session,) in cursor.fetchall():
            cursor.execute(f"KILL {int(session)}")

"""Workers that die: what they held runs again elsewhere, and nothing that was committed is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconcilers.models import WorkItem
from reconcilers.workqueue.sql import DatabaseNow
from tests.faults.conftest import Burst, assert_all_reconciled, wait_until_settled
from tests.faults.workload.runs import RunRecord
from tests.kit.failpoints import Failpoints
from tests.kit.processes import Processes
from tests.kit.waiting import eventually
from tests.kit.workers import StartsProcess
from tests.library.models import Author, Book

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_killed_in_a_burst_loses_nothing(
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
    runs: RunRecord,
) -> None:
    sweeper()
    worker = celery_worker(concurrency=2, env=worker_environment)
    killed = {worker.pid, *worker.children}
    burst = Burst(books=20, writes=500)

    burst.start()
    burst.wait_for(150)
    worker.kill()
    burst.wait_for(300)
    celery_worker(concurrency=2, env=worker_environment)
    burst.join()
    wait_until_settled()

    assert_all_reconciled(burst)
    assert runs.overlaps(dead=killed) == []


@pytest.mark.parametrize("point", ["after_claim", "before_write", "after_write", "before_finish", "after_finish"])
def test_a_worker_killed_at_any_step_of_a_run_leaves_it_to_another(
    point: str,
    failpoints: Failpoints,
    processes: Processes,
    runreconcilers: StartsProcess,
    worker_environment: dict[str, str],
) -> None:
    book = Book.objects.create(title="It", stock=3)
    armed = failpoints.arm(point, "die")

    first = processes.manage("reconcile", "Mirror", str(book.pk), env=worker_environment)
    armed.wait_until_reached()
    killed_with = first.wait()
    runreconcilers(env=worker_environment)
    wait_until_settled()

    book.refresh_from_db()
    item = WorkItem.objects.get(reconciler="Mirror")
    assert (killed_with, book.details, book.version) == (-9, {"stock": 3}, 2)
    assert (item.observed_version, item.attempts, item.parked_at) == (2, 0, None)


def test_a_celery_worker_killed_between_claim_and_write_leaves_the_key_to_the_next(
    failpoints: Failpoints,
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
    runs: RunRecord,
) -> None:
    sweeper()
    worker = celery_worker(concurrency=1, env=worker_environment)
    (killed,) = worker.children
    armed = failpoints.arm("before_write", "die")  # prefork starts another process for the one that died

    book = Book.objects.create(title="It", stock=3)
    died = armed.wait_until_reached()
    eventually(lambda: WorkItem.objects.get(reconciler="Mirror").observed_version == 2, what="reconciled")
    wait_until_settled()

    book.refresh_from_db()
    item = WorkItem.objects.get(reconciler="Mirror")
    assert (died, book.details, book.version) == (killed, {"stock": 3}, 2)
    assert (item.attempts, item.parked_at, runs.overlaps(dead={killed})) == (0, None, [])


def test_a_runner_killed_with_a_batch_in_hand_leaves_it_to_another(
    failpoints: Failpoints, runreconcilers: StartsProcess, worker_environment: dict[str, str], runs: RunRecord
) -> None:
    books = [Book.objects.create(title=f"book {n}", stock=n) for n in range(5)]
    armed = failpoints.arm("after_claim", "die")

    first = runreconcilers(env=worker_environment)
    armed.wait_until_reached()
    killed_with = first.wait()
    held = WorkItem.objects.exclude(lease_until=None).count()
    ran = runs.count("Mirror")
    runreconcilers(env=worker_environment)
    wait_until_settled()

    assert (killed_with, held, ran) == (-9, len(books), 0)
    settled = Book.objects.order_by("stock").values_list("details", "version")
    assert list(settled) == [({"stock": n}, 2) for n in range(len(books))]
    assert set(WorkItem.objects.values_list("observed_version", "attempts")) == {(2, 0)}


def test_a_key_that_kills_its_worker_ends_parked_and_blocks_nobody(
    celery_worker: StartsProcess, sweeper: Callable[[], None], worker_environment: dict[str, str], runs: RunRecord
) -> None:
    sweeper()
    celery_worker(concurrency=2, env=worker_environment)
    poison = Author.objects.create(name="poison")
    others = [Author.objects.create(name=f"author {n}") for n in range(20)]

    eventually(lambda: WorkItem.objects.filter(reconciler="Poison", parked_at__isnull=False), what="poison parked")
    wait_until_settled()

    (parked,) = WorkItem.objects.exclude(parked_at=None)
    assert (parked.key, parked.attempts) == (str(poison.pk), 3)
    assert parked.last_error == "Its worker died, or lost its lease, in each of 3 attempts."
    settled = WorkItem.objects.filter(reconciler="Poison", observed_version=1).values_list("key", flat=True)
    assert set(settled) == {str(author.pk) for author in others}
    assert sum(1 for _, what, _, _, key in runs.lines() if what == "begin" and key == str(poison.pk)) == 3


def test_a_key_that_kills_its_runner_ends_parked_and_takes_none_of_its_batch_along(
    runreconcilers: StartsProcess, worker_environment: dict[str, str]
) -> None:
    poison = Author.objects.create(name="poison")
    others = [Author.objects.create(name=f"author {n}") for n in range(5)]
    # It is the first of each batch that it is in.
    WorkItem.objects.filter(key=str(poison.pk)).update(due_at=DatabaseNow(-60))

    deaths = 0
    while not _is_parked(poison):
        runner = runreconcilers("Poison", env={**worker_environment, "OCC_LEASE_SECONDS": "1"})
        eventually(lambda runner=runner: runner.returncode is not None or _is_parked(poison), what="killed or parked")
        deaths += runner.returncode is not None
        runner.kill()
    runreconcilers("Poison", env=worker_environment)
    wait_until_settled()

    (parked,) = WorkItem.objects.exclude(parked_at=None)
    assert (parked.key, deaths) == (str(poison.pk), 3)
    settled = WorkItem.objects.filter(reconciler="Poison", observed_version=1).values_list("key", flat=True)
    assert set(settled) == {str(author.pk) for author in others}


def _is_parked(author: Author) -> bool:
    return WorkItem.objects.filter(key=str(author.pk), parked_at__isnull=False).exists()

"""Deploys: workers are told to end in mid-burst, and new ones take their place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from reconcilers.models import WorkItem
from tests.faults.conftest import Burst, assert_all_reconciled, wait_until_settled
from tests.faults.workload.runs import RunRecord
from tests.kit.workers import StartsProcess

pytestmark = pytest.mark.django_db(transaction=True)


def leased() -> list[str]:
    return [str(item) for item in WorkItem.objects.exclude(lease_until=None)]


def test_celery_workers_replaced_in_a_burst_leave_nothing_leased_and_nothing_undone(
    celery_worker: StartsProcess, sweeper: Callable[[], None], worker_environment: dict[str, str], runs: RunRecord
) -> None:
    sweeper()
    old = celery_worker(concurrency=2, env=worker_environment)
    burst = Burst(books=50, writes=500)

    burst.start()
    burst.wait_for(200)
    old.terminate()
    left = leased()
    celery_worker(concurrency=2, env=worker_environment)
    burst.join()
    wait_until_settled()

    assert left == []
    assert_all_reconciled(burst)
    assert runs.overlaps() == []


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_workers_of_the_other_pools_do_it_all_and_end_cleanly(
    pool: str,
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
    runs: RunRecord,
) -> None:
    sweeper()
    worker = celery_worker(pool=pool, concurrency=2, env=worker_environment)
    burst = Burst(books=10, writes=60)

    burst.start()
    burst.join()
    wait_until_settled()

    assert (worker.terminate(), leased()) == (0, [])
    assert_all_reconciled(burst)
    assert runs.overlaps() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runreconcilers_told_to_end_finishes_its_run_and_gives_the_rest_back(
    number: signal.Signals, runreconcilers: StartsProcess, worker_environment: dict[str, str], runs: RunRecord
) -> None:
    old = runreconcilers(env=worker_environment)
    old.wait_for_output("Reconciling")
    burst = Burst(books=50, writes=300)

    burst.start()
    burst.wait_for(150)

    os.kill(old.pid, number)
    status = old.wait()
    left = leased()
    runreconcilers(env=worker_environment)
    burst.join()
    wait_until_settled()

    assert (status, left) == (0, [])
    assert_all_reconciled(burst)
    assert runs.overlaps() == []

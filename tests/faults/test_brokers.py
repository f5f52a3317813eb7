"""Brokers that fail: writers do not notice, and every change is reconciled all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconcilers import tasks
from reconcilers.models import WorkItem
from reconcilers.workqueue import nudges, sweep
from reconcilers.workqueue.sql import DatabaseNow
from tests.faults.conftest import Burst, assert_all_reconciled, settles, wait_until_settled
from tests.faults.workload.reconcilers import Mirror
from tests.kit.servers import Server
from tests.kit.waiting import eventually
from tests.kit.workers import StartsProcess
from tests.library.models import Book

pytestmark = pytest.mark.django_db(transaction=True)

# How long a write may take while the broker is away: the nudge's time limit, and the load of a test run. Celery's own
# producers would wait for a silent broker until the kernel gives up, which takes minutes.
PATIENCE = 10.0


@pytest.mark.parametrize("fault", ["stopped", "silent", "wiped"])
def test_a_broker_that_fails_in_a_burst_costs_time_only(
    fault: str,
    stoppable_broker: Server,
    celery_worker: StartsProcess,
    sweeper: Callable[[], None],
    worker_environment: dict[str, str],
) -> None:
    sweeper()
    worker = celery_worker(concurrency=2, env=worker_environment)
    burst = Burst(books=20, writes=200, pause=0.02)

    burst.start()
    burst.wait_for(50)
    if fault == "stopped":
        stoppable_broker.stop()
    elif fault == "silent":
        stoppable_broker.pause()
    else:
        stoppable_broker.wipe()
    burst.join()
    stoppable_broker.restore()
    if not settles(timeout=60):
        # Some of Celery's workers stay deaf after Redis came back (celery/celery#10205). `workqueue --check` tells, and
        # whoever supervises the worker replaces it, as docs/how-to/production.md says.
        worker.kill()
        celery_worker(concurrency=2, env=worker_environment)
    wait_until_settled()

    assert_all_reconciled(burst)
    assert burst.slowest < PATIENCE


def test_without_any_broker_runreconcilers_does_it_all(
    stoppable_broker: Server, runreconcilers: StartsProcess, worker_environment: dict[str, str]
) -> None:
    stoppable_broker.stop()
    runreconcilers(env=worker_environment)
    burst = Burst(books=10, writes=100)

    burst.start()
    burst.join()
    wait_until_settled()

    assert_all_reconciled(burst)
    assert burst.slowest < PATIENCE


def test_a_queue_that_no_worker_serves_stays_shallow(
    stoppable_broker: Server, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 10
    settings.RECONCILERS = {"NUDGE": True, "NUDGE_WINDOW": window, "NUDGE_AGAIN_SECONDS": 0.1}
    monkeypatch.setattr(nudges, "_allowance", nudges.Allowance(per_second=0))
    stoppable_broker.wipe()  # of what other tests left on it
    Book.objects.bulk_create(Book(title=f"book {n}") for n in range(5 * window))

    depths = []
    for _ in range(30):
        WorkItem.objects.filter(nudged_at__isnull=False).update(nudged_at=DatabaseNow(-60))
        sweep()
        depths.append(tasks.count_waiting(Mirror.queue))
    stoppable_broker.wipe()
    sweep()

    # The first sweep that found a window there was the last that sent any.
    assert window <= max(depths) < 2 * window
    eventually(lambda: tasks.count_waiting(Mirror.queue), what="messages that were lost are sent again")

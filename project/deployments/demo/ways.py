"""Act four: two controllers change one row at once, each its own columns, in one way after the other.

Each change raises a counter of its controller, so what is missing in the end was lost. All ways decide equally long.
The last way leaves the row to one writer: a reconciler, worked by a thread here (as ``manage.py runreconcilers`` does)
and by the Celery worker where one is running.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

import reconcilers
from occ.backoff import Backoff
from occ.exceptions import FieldConflict
from occ.signals import conflict_detected
from project.deployments.models import (
    Deployment,
    OwnedDeployment,
    QueuedDeployment,
    Request,
    UnguardedDeployment,
    Workload,
)
from project.deployments.reconcilers import Clerk
from reconcilers import registry
from reconcilers.management.runner import Runner, Stop

NAME = "gift-cards"
EACH = 60  # changes of each controller
DECIDES_SECONDS = 0.002
CLERK_SECONDS = 60.0
PATIENT = Backoff(attempts=100)
COUNTERS = {"autoscaler": "scalings", "rollout": "revision"}


@dataclass(frozen=True, kw_only=True)
class Way:
    """What one way came to.

    Attributes:
        name: what it is called.
        writes: changes that were accepted.
        conflicts: attempts that were refused.
        lost: accepted changes that are not in the row.
        seconds: how long all of them took.
    """

    name: str
    writes: int
    conflicts: int
    lost: int
    seconds: float


def play() -> tuple[Way, ...]:
    """Let the two controllers race for one row: unguarded, guarded by its version, by ownership, through the queue."""
    with _clerk():
        return (
            _race("unguarded", UnguardedDeployment, _save),
            _race("guarded", Deployment, _mutate),
            _race("owned", OwnedDeployment, _apply),
            _race("queued", QueuedDeployment, _request),
        )


def _race(name: str, model: type[Workload], change: Callable[[Any, int, str], None]) -> Way:
    manager = model._default_manager
    # Paused, for the controllers in the Celery worker.
    pk = manager.create(name=NAME, image="registry.shop.example/gift-cards:1.0.0", paused=True).pk
    conflicts: list[object] = []
    together = threading.Barrier(len(COUNTERS), timeout=30)

    def count(**facts: object) -> None:
        conflicts.append(facts["conflict"])

    def work(controller: str) -> None:
        try:
            together.wait()
            for _ in range(EACH):
                change(model, pk, controller)
        finally:
            connection.close()

    conflict_detected.connect(count, sender=model, weak=False)
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(len(COUNTERS)) as threads:
            list(threads.map(work, COUNTERS))
        _wait_for_requests(pk)
    finally:
        conflict_detected.disconnect(count, sender=model)
    seconds = time.perf_counter() - began
    row = manager.get(pk=pk)
    writes = EACH * len(COUNTERS)
    lost = writes - sum(getattr(row, counter) for counter in COUNTERS.values())
    return Way(name=name, writes=writes, conflicts=len(conflicts), lost=lost, seconds=seconds)


@contextmanager
def _clerk() -> Iterator[None]:
    """Work the queue of ``QueuedDeployment`` in a thread."""
    stop = Stop()

    def work() -> None:
        try:
            Runner([registry.get(Clerk)], ["default"], stop=stop).work()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _wait_for_requests(pk: int) -> None:
    until = time.monotonic() + CLERK_SECONDS
    while Request.objects.filter(deployment_pk=pk).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"The requests were not carried out within {CLERK_SECONDS} s.")
        time.sleep(0.01)


def _raise(workload: Any, controller: str) -> None:
    counter = COUNTERS[controller]
    setattr(workload, counter, getattr(workload, counter) + 1)
    time.sleep(DECIDES_SECONDS)


def _save(model: Any, pk: int, controller: str) -> None:
    workload = model.objects.get(pk=pk)
    _raise(workload, controller)
    workload.save()


def _mutate(model: Any, pk: int, controller: str) -> None:
    # Without a transaction, which on SQLite would make the controllers take turns.
    model.objects.mutate(pk, lambda workload: _raise(workload, controller), backoff=PATIENT, atomic=False)


def _apply(model: Any, pk: int, controller: str) -> None:
    workload = model.objects.get(pk=pk)
    _raise(workload, controller)
    counter = COUNTERS[controller]
    try:
        model.objects.apply(pk, {counter: getattr(workload, counter)}, manager=controller)
    except FieldConflict as conflict:  # cannot be: the fields are not the other's
        raise AssertionError(f"The controllers own different fields: {conflict}") from conflict


def _request(model: Any, pk: int, controller: str) -> None:
    workload = model.objects.get(pk=pk)
    _raise(workload, controller)
    with transaction.atomic():
        Request.objects.create(deployment_pk=pk, counter=COUNTERS[controller])
        reconcilers.enqueue(Clerk, pk)

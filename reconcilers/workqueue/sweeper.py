"""Finding what is due and waking workers for it; any process may do it, and two at once are harmless."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from itertools import zip_longest

from django.db import Error, connections, router

from reconcilers import registry
from reconcilers.conf import reconciler_settings
from reconcilers.models import Cause, WorkItem
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import nudges, scanner, sql

logger = logging.getLogger("reconcilers")


def sweep(*, using: str | None = None, nudge: bool = True, clock: Callable[[], float] = time.monotonic) -> int:
    """Park what killed its workers, wake workers for what is due or whose worker died, and leave a heartbeat.

    Args:
        using: the alias of one database; None: every one that holds rows of a registered model.
        nudge: whether workers are woken.
        clock: what the time limit of a scan is measured by, in seconds.

    Raises the first error of a database, once the others are swept.

    Returns the number of keys for which a message was sent. At most ``NUDGE_WINDOW`` keys per Celery queue have one
    at a time, shared evenly by the queue's reconcilers, so that a broker stays shallow on a big day and no reconciler
    starves another.
    """
    woken = 0
    trouble: Error | None = None
    for alias in [using] if using else databases():
        try:
            woken += _sweep_one(alias, nudge, clock)
        except Error as error:  # that of one database must not keep the others from being swept
            trouble = trouble or error
            connections[alias].close_if_unusable_or_obsolete()
    if trouble is not None:
        raise trouble
    return woken


def databases() -> list[str]:
    """Return the aliases of the databases that hold work items."""
    aliases = {router.db_for_write(reconciler.model) for reconciler in registry.all_reconcilers()}
    return sorted(aliases or {router.db_for_write(WorkItem)})


def _sweep_one(using: str, nudge: bool, clock: Callable[[], float]) -> int:
    reconcilers = registry.all_reconcilers()
    for reconciler in reconcilers:
        park_poison(reconciler, using)
    woken = _wake(reconcilers, using) if nudge and reconciler_settings.NUDGE else 0
    d = sql.dialect_of(connections[using])
    sql.execute(using, sql.beat(d), {"name": "sweep", "now": d.seconds(0)})
    for reconciler in reconcilers:
        try:
            scanner.scan_if_due(reconciler, using=using, clock=clock)
        except Exception:  # the trouble of one model must not keep the others from being looked at
            logger.exception("The scan for %s failed; the next sweeps try again.", reconciler.name)
    return woken


def park_poison(reconciler: Reconciler, using: str) -> None:
    """Park the keys of a reconciler that have killed their worker in each of ``max_attempts`` runs."""
    d = sql.dialect_of(connections[using])
    error = f"Its worker died, or lost its lease, in each of {reconciler.max_attempts} attempts."
    parked = sql.execute(
        using,
        sql.park_poison(d),
        {
            "reconciler": reconciler.name,
            "max_attempts": reconciler.max_attempts,
            "error": error,
            "now": d.seconds(0),
            "next": d.seconds(reconciler.backoff.cap),
        },
    )
    if parked:
        logger.error("Parked %d keys of %s: %s", parked, reconciler.name, error)


def _wake(reconcilers: Iterable[Reconciler], using: str) -> int:
    by_queue: dict[str | None, list[Reconciler]] = {}
    for reconciler in reconcilers:
        by_queue.setdefault(reconciler.queue, []).append(reconciler)
    woken = 0
    for queue, sharing in by_queue.items():
        turns = _turns(sharing, using, reconciler_settings.NUDGE_AGAIN_SECONDS)
        if turns and nudges.crowded(queue):
            turns = _turns(sharing, using, nudges.CROWDED_AGAIN_SECONDS)
        nudges.send([(name, key) for _, name, key in turns], using)
        _mark_nudged([item for item, _, _ in turns], using)
        woken += len(turns)
    return woken


Turn = tuple[int, str, str]  # the item, its reconciler's name, its key


def _turns(sharing: list[Reconciler], using: str, again: float) -> list[Turn]:
    """Return the items to wake of reconcilers that share a queue, by turns."""
    share = max(1, reconciler_settings.NUDGE_WINDOW // len(sharing))
    waiting = [_waiting(reconciler, using, share, again) for reconciler in sharing]
    return [turn for turns in zip_longest(*waiting) for turn in turns if turn is not None]


def _waiting(reconciler: Reconciler, using: str, share: int, again: float) -> list[Turn]:
    """Return the items to wake: among the first ``share`` that are due, those without a message of late.

    ``again`` is the seconds after which a message is repeated.
    """
    d = sql.dialect_of(connections[using])
    parameters = {
        "reconciler": reconciler.name,
        "now": d.seconds(0),
        "nudged_since": d.seconds(-again),
        "limit": share,
    }
    rows = sql.fetch(using, sql.expired(d), parameters)
    for cause in Cause:
        if len(rows) < share:
            rows += sql.fetch(using, sql.due(d), {**parameters, "cause": cause, "limit": share - len(rows)})
    return [(item, reconciler.name, key) for item, key, under_way in rows if not under_way]


def _mark_nudged(items: list[int], using: str) -> None:
    for start in range(0, len(items), 500):
        WorkItem.objects.using(using).filter(id__in=items[start : start + 500]).update(nudged_at=sql.DatabaseNow())

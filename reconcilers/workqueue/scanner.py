"""Comparing each model with its items by version: finds the writes that no signal told of.

``QuerySet.update`` beyond what a signal carries, raw SQL under the version trigger, restored backups, raw deletes, and
rows that were there before their reconciler. It reads everything, a chunk at a time, and runs the differences only. A
pass goes on where the one before stopped, so it neither holds up a sweep nor floods the queue.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections, models, router
from django.db.models import Q

from occ.fields import version_field
from reconcilers import registry
from reconcilers.conf import reconciler_settings
from reconcilers.exceptions import InvalidKey
from reconcilers.models import Cause, Heartbeat, WorkItem
from reconcilers.reconciler import Reconciler
from reconcilers.result import to_seconds
from reconcilers.workqueue import requests, sql
from reconcilers.workqueue.sql import DatabaseNow

logger = logging.getLogger("reconcilers")

CHUNK = 1000
# Seconds of one sweep that a scan may take.
BUDGET_SECONDS = 0.5

# Where a scan is: comparing rows, taking rows whether changed or not, looking for items without a row.
_ROWS, _EVERY_ROW, _ITEMS = "rows", "every row", "items"


def resync(
    reconciler: str | type[Reconciler],
    *,
    everything: bool = False,
    over: dt.timedelta | float = 0,
    using: str | None = None,
) -> int:
    """Ask for runs of rows whose changes nobody was told of, or of all rows.

    Args:
        reconciler: the class or its name.
        everything: run every row, changed or not: after the logic of the reconciler changed. False: let the next
            sweep compare the table with what was reconciled, and run the differences.
        over: with ``everything``, spread the runs over this time, a timedelta or seconds.
        using: the alias of the database; by default the one that the model is written to.

    Returns the number of keys asked for; 0 when it is left to the next sweep. Parked keys stay parked.
    """
    known = registry.get(reconciler)
    alias = using or router.db_for_write(known.model)
    if not everything:
        want_scan(known.name, using=alias)
        return 0
    return _request_all(known, alias, to_seconds("over", over))


def want_scan(name: str, *, using: str, everything: bool = False) -> None:
    """Let the next sweep scan for the reconciler of this name, from the beginning; part of the open transaction.

    ``everything``: run every row, as fast as the queue takes them.
    """
    d = sql.dialect_of(connections[using])
    cursor = f"{_EVERY_ROW}:" if everything else ""
    sql.execute(using, sql.want(d), {"name": _job(name), "cursor": cursor, "now": d.seconds(0)})


def scan_if_due(reconciler: Reconciler, *, using: str, clock: Callable[[], float] = time.monotonic) -> None:
    """Go on with the scan of a reconciler's rows if one is under way, and begin one if it is time.

    Several sweepers may call this; one of them scans.
    """
    job = Heartbeat.objects.using(using).filter(name=_job(reconciler.name))
    since = DatabaseNow(-reconciler_settings.SCAN_SECONDS)
    due = Q(due_at__lte=DatabaseNow()) | Q(due_at=None, beat_at__lte=since) | Q(due_at=None, beat_at=None)
    if not job.exists():
        want_scan(reconciler.name, using=using)
    found = job.filter(due).first()
    if found is None:
        return
    # Taken by moving it ahead, past the time that a pass may need: one whose scanner dies is taken up again then.
    if not job.filter(due, cursor=found.cursor).update(due_at=DatabaseNow(60)):
        return
    cursor = _Scan(reconciler, using, clock).go_on(found.cursor)
    taken = job.filter(due_at__gt=DatabaseNow())
    if cursor is None:
        taken.update(cursor="", due_at=None, beat_at=DatabaseNow())
    else:
        taken.update(cursor=cursor, due_at=DatabaseNow())


class _Scan:
    """One pass: from a cursor, through the rows and then the items, until time or the queue says stop."""

    def __init__(self, reconciler: Reconciler, using: str, clock: Callable[[], float]) -> None:
        self.reconciler = reconciler
        self.using = using
        self._clock = clock
        self._room = reconciler_settings.NUDGE_WINDOW - self._backlog()

    def go_on(self, cursor: str) -> str | None:
        """Continue at ``cursor`` ("" is the beginning) and return where to go on next time, or None at the end."""
        until = self._clock() + BUDGET_SECONDS
        part, _, key = cursor.partition(":") if cursor else (_ROWS, "", "")
        while self._room > 0 and self._clock() < until:
            if part != _ITEMS:
                last = self._compare_rows(key, everything=part == _EVERY_ROW)
                part, key = (part, last) if last is not None else (_ITEMS, "0")
            else:
                last = self._compare_items(int(key))
                if last is None:
                    return None
                key = last
        return f"{part}:{key}"

    def _backlog(self) -> int:
        waiting = WorkItem.objects.using(self.using).filter(
            reconciler=self.reconciler.name, cause=Cause.CLOCK, due_at__lte=DatabaseNow()
        )
        return waiting[: reconciler_settings.NUDGE_WINDOW].count()

    def _compare_rows(self, after: str, *, everything: bool) -> str | None:
        """Ask for the rows of a chunk that were never reconciled, or at another version, or (``everything``) at all."""
        rows = _rows(self.reconciler, self.using, after)
        versions = {self.reconciler.key_for(pk): version for pk, version in rows}
        items = WorkItem.objects.using(self.using).filter(reconciler=self.reconciler.name, key__in=versions)
        # Left alone: what is due, running, backing off or parked. It has been asked for, or is known to be broken.
        settled = Q(parked_at=None, lease_until=None, attempts=0) & (Q(due_at=None) | Q(due_at__gt=DatabaseNow()))
        known = {key: (version, False) for key, version in items.values_list("key", "observed_version")}
        known |= {key: (version, True) for key, version in items.filter(settled).values_list("key", "observed_version")}
        missed = [
            key
            for key, version in versions.items()
            if key not in known or (known[key][1] and (everything or known[key][0] != version))
        ]
        self._request(missed)
        return self.reconciler.key_for(rows[-1][0]) if len(rows) == CHUNK else None

    def _compare_items(self, after: int) -> str | None:
        """Ask for the items of a chunk whose row is gone."""
        items = list(
            WorkItem.objects.using(self.using)
            .filter(reconciler=self.reconciler.name, id__gt=after)
            .order_by("id")
            .values_list("id", "key", "parked_at")[:CHUNK]
        )
        keys = {}
        for item, key, _parked_at in items:
            try:
                keys[self.reconciler.pk_for(key)] = key
            except InvalidKey as error:  # the model's primary key was of another type once
                logger.warning("Work item %d can never run: %s", item, error)
        there = self.reconciler.model._base_manager.using(self.using).filter(pk__in=list(keys))
        gone = set(keys) - set(there.values_list("pk", flat=True))
        parked = {key for _, key, parked_at in items if parked_at is not None}
        self._request([keys[pk] for pk in gone if keys[pk] not in parked])
        return str(items[-1][0]) if len(items) == CHUNK else None

    def _request(self, keys: list[str]) -> None:
        if keys:
            logger.info("The scan found %d keys of %s that nobody had asked for.", len(keys), self.reconciler.name)
            _request_for_clock(self.reconciler, keys, self.using)
            self._room -= len(keys)


def _rows(reconciler: Reconciler, using: str, after: str) -> list[tuple[Any, int]]:
    field = version_field(reconciler.model)
    if field is None:  # register() let no such model pass
        raise TypeError(f"{reconciler.model._meta.label} has no version.")
    rows: models.QuerySet[Any] = reconciler.model._base_manager.using(using).order_by("pk")
    if after:
        rows = rows.filter(pk__gt=reconciler.pk_for(after))
    return list(rows.values_list("pk", field.attname)[:CHUNK])


def _request_all(reconciler: Reconciler, using: str, over: float) -> int:
    count, after = 0, ""
    while rows := _rows(reconciler, using, after):
        keys = [reconciler.key_for(pk) for pk, _ in rows]
        # Spread chunk by chunk of a hundred, which is as even as anybody needs.
        for start in range(0, len(keys), 100):
            some = keys[start : start + 100]
            _request_for_clock(reconciler, some, using, delay=random.uniform(0, over))  # noqa: S311 - not for secrets
        count, after = count + len(keys), keys[-1]
    return count


def _request_for_clock(reconciler: Reconciler, keys: Iterable[str], using: str, delay: float = 0.0) -> None:
    requests.request(
        ((reconciler.name, key) for key in keys),
        using=using,
        delay=delay,
        cause=Cause.CLOCK,
        unpark=False,
        nudge=False,
    )


def _job(name: str) -> str:
    return f"scan:{name}"

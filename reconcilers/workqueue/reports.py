"""What the queue looks like: for one object, and per reconciler."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.db import models, router
from django.db.models import Count, Min, Q

from occ.fields import get_version
from reconcilers import registry
from reconcilers.conf import reconciler_settings
from reconcilers.models import Heartbeat, WorkItem
from reconcilers.workqueue.sql import DatabaseNow


class State(enum.StrEnum):
    """Where a key stands with one reconciler."""

    SETTLED = "settled"
    PENDING = "pending"
    RUNNING = "running"
    FAILING = "failing"
    PARKED = "parked"


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where one object stands with one reconciler.

    Attributes:
        reconciler: the reconciler's name.
        state: settled: reconciled at the version of the object that was passed; pending: it will run; failing: it
            will run again after an error; parked: it will not, until the object changes or somebody requeues it.
        observed_version: the version at the last success, or None.
        attempts: runs since the last success.
        error: what went wrong last, or "".
        next_try: when it runs next at the earliest, or None.
        last_success_at: or None.
    """

    reconciler: str
    state: State
    observed_version: int | None
    attempts: int
    error: str
    next_try: dt.datetime | None
    last_success_at: dt.datetime | None


def status(obj: models.Model, *, using: str | None = None) -> dict[str, Status]:
    """Tell, by reconciler's name, where ``obj`` stands at the version that it has in memory.

    Args:
        using: the alias of the database; by default the one that the object is written to.
    """
    alias = using or router.db_for_write(type(obj), instance=obj)
    found = {}
    for reconciler in registry.for_model(type(obj)):
        items = WorkItem.objects.using(alias).filter(reconciler=reconciler.name, key=reconciler.key_for(obj.pk))
        item = items.annotate(now=DatabaseNow()).first()
        found[reconciler.name] = _status(reconciler.name, item, get_version(obj))
    return found


def _status(name: str, item: Any, version: int) -> Status:
    if item is None:
        state = State.PENDING  # the next scan finds it
        return Status(
            reconciler=name,
            state=state,
            observed_version=None,
            attempts=0,
            error="",
            next_try=None,
            last_success_at=None,
        )
    return Status(
        reconciler=name,
        state=_state(item, version),
        observed_version=item.observed_version,
        attempts=item.attempts,
        error=item.last_error,
        next_try=item.due_at,
        last_success_at=item.last_success_at,
    )


def _state(item: Any, version: int) -> State:
    if item.parked_at is not None:
        return State.PARKED
    if item.lease_until is not None and item.lease_until > item.now:
        return State.RUNNING
    if item.attempts:
        return State.FAILING
    due = item.lease_until is not None or (item.due_at is not None and item.due_at <= item.now)
    return State.PENDING if due or item.observed_version != version else State.SETTLED


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The items of one reconciler on one database, by what they wait for.

    Attributes:
        due: due now and free, or with a lease that has ended.
        running: held by a worker.
        failing: waiting for the end of a backoff.
        waiting: due later, for a resync or because a run said so.
        idle: nothing to do.
        parked: given up, until somebody or a change says otherwise.
        oldest_due: seconds that the oldest due item has waited, or None.
        known: whether this process has a reconciler of that name.
    """

    reconciler: str
    database: str
    due: int
    running: int
    failing: int
    waiting: int
    idle: int
    parked: int
    oldest_due: float | None
    known: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON takes them."""
        return asdict(self)


def conditions() -> dict[str, Q]:
    """Return what tells apart the states that ``Counts`` counts, as conditions on work items."""
    now = DatabaseNow()
    free = Q(parked_at=None, lease_until=None)
    return {
        "due": (free & Q(due_at__lte=now)) | Q(lease_until__lte=now),
        "running": Q(lease_until__gt=now),
        "failing": free & Q(due_at__gt=now, attempts__gt=0),
        "waiting": free & Q(due_at__gt=now, attempts=0),
        "idle": free & Q(due_at=None),
        "parked": Q(parked_at__isnull=False),
    }


def counts(using: str) -> list[Counts]:
    """Count the items of each reconciler, those of unknown ones too, with one query."""
    rows = (
        WorkItem.objects.using(using)
        .values("reconciler")
        .annotate(
            **{state: Count("id", filter=condition) for state, condition in conditions().items()},
            oldest=Min("due_at", filter=Q(parked_at=None, lease_until=None, due_at__lte=DatabaseNow())),
            oldest_expired=Min("lease_until", filter=Q(lease_until__lte=DatabaseNow())),
            now=DatabaseNow(),
        )
        .order_by("reconciler")
    )
    by_name: dict[str, dict[str, Any]] = {row["reconciler"]: dict(row) for row in rows}
    known = {reconciler.name for reconciler in registry.all_reconcilers()}
    return [_counts(name, using, by_name.get(name), name in known) for name in sorted(known | set(by_name))]


def _counts(name: str, using: str, row: dict[str, Any] | None, known: bool) -> Counts:
    if row is None:
        return Counts(
            reconciler=name,
            database=using,
            due=0,
            running=0,
            failing=0,
            waiting=0,
            idle=0,
            parked=0,
            oldest_due=None,
            known=known,
        )
    now, _ = row.pop("now"), row.pop("reconciler")
    oldest = [since for since in (row.pop("oldest"), row.pop("oldest_expired")) if since is not None]
    age = (now - min(oldest)).total_seconds() if oldest else None
    return Counts(reconciler=name, database=using, oldest_due=age, known=known, **row)


def last_sweep(using: str) -> float | None:
    """Return how many seconds ago anybody swept, or None if nobody ever did."""
    beat = Heartbeat.objects.using(using).filter(name="sweep").annotate(now=DatabaseNow()).first()
    if beat is None or beat.beat_at is None:
        return None
    seconds: float = (beat.now - beat.beat_at).total_seconds()
    return seconds


def alarms(using: str, *, oldest_due: float, parked: int) -> Iterator[str]:
    """Yield what a person should look at, one sentence each."""
    for each in counts(using):
        if not each.known and each.due + each.running + each.failing:
            yield (
                f"{each.reconciler}: no reconciler of this name is registered, and its items wait. Deploy it again, "
                f"move them with 'manage.py workqueue rename {each.reconciler} NEW', or drop them with 'manage.py "
                f"workqueue remove {each.reconciler}'."
            )
        if each.oldest_due is not None and each.oldest_due > oldest_due:
            yield (
                f"{each.reconciler}: {each.due} due, the oldest for {each.oldest_due:.0f} s. See that workers run and "
                "keep up."
            )
        if each.parked > parked:
            yield f"{each.reconciler}: {each.parked} parked. Read their errors in the admin, and requeue them."
    swept = last_sweep(using)
    if swept is None or swept > max(30.0, 10 * reconciler_settings.SWEEP_SECONDS):
        since = "ever" if swept is None else f"for {swept:.0f} s"
        yield f"Nobody has swept database {using!r} {since}. Run Celery beat, or 'manage.py runreconcilers'."

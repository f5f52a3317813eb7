"""The queue at a glance, at a cost that does not grow with it: counts stop at a limit, each query has its index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reconcilers import registry
from reconcilers.models import Cause, WorkItem
from reconcilers.workqueue.reports import last_sweep
from reconcilers.workqueue.sql import DatabaseNow

LIMIT = 1000  # beyond it a count only says "more"


@dataclass(kw_only=True)
class Overview:
    """What waits, of one reconciler or of all; a count above ``LIMIT`` means that many or more.

    Attributes:
        due: due now and free, or with a lease that has ended.
        scheduled: due later.
        running: held by a worker.
        parked: given up.
        oldest_due: seconds that the oldest due item has waited, or None.
    """

    name: str
    due: int = 0
    scheduled: int = 0
    running: int = 0
    parked: int = 0
    oldest_due: float | None = None

    def waited(self, seconds: float) -> None:
        """Take note of a due item."""
        self.oldest_due = seconds if self.oldest_due is None else max(self.oldest_due, seconds)


@dataclass(kw_only=True)
class QueueOverview:
    """All reconcilers of this process together, each of them, and the age of the last sweep in seconds."""

    total: Overview
    reconcilers: list[Overview] = field(default_factory=list)
    last_sweep: float | None = None


def overview(using: str) -> QueueOverview:
    """Look at the queue on the database ``using``."""
    items: Any = WorkItem.objects.using(using).order_by()
    found = {each.name: Overview(name=each.name) for each in registry.all_reconcilers()}
    leased = items.filter(lease_until__isnull=False).annotate(now=DatabaseNow())
    for name, until, now in leased.values_list("reconciler", "lease_until", "now")[: LIMIT + 1]:
        each = found.setdefault(name, Overview(name=name))
        if until > now:
            each.running += 1
        else:
            each.due += 1
            each.waited((now - until).total_seconds())
    for name in items.filter(parked_at__isnull=False).values_list("reconciler", flat=True)[: LIMIT + 1]:
        found.setdefault(name, Overview(name=name)).parked += 1
    for each in found.values():
        _count_waiting(items, each)
    ordered = [found[name] for name in sorted(found)]
    return QueueOverview(total=_total(ordered), reconcilers=ordered, last_sweep=last_sweep(using))


def _count_waiting(items: Any, each: Overview) -> None:
    free = items.filter(reconciler=each.name, parked_at=None, lease_until=None)
    for cause in Cause:  # the index has it between the reconciler and the time
        due = free.filter(cause=cause, due_at__lte=DatabaseNow()).annotate(now=DatabaseNow()).order_by("due_at")
        times = list(due.values_list("due_at", "now")[: LIMIT + 1])
        each.due += len(times)
        if times:
            each.waited((times[0][1] - times[0][0]).total_seconds())
        # Ordered, so that PostgreSQL walks the index also where it wrongly expects to find many rows at once.
        later = free.filter(cause=cause, due_at__gt=DatabaseNow()).order_by("due_at")
        each.scheduled += later.values("due_at")[: LIMIT + 1].count()


def _total(each: list[Overview]) -> Overview:
    ages = [one.oldest_due for one in each if one.oldest_due is not None]
    return Overview(
        name="",
        due=sum(one.due for one in each),
        scheduled=sum(one.scheduled for one in each),
        running=sum(one.running for one in each),
        parked=sum(one.parked for one in each),
        oldest_due=max(ages, default=None),
    )

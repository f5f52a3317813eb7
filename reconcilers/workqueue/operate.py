"""What a person does to items: requeue, park, rename, remove; each a guarded statement that minds workers' leases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from reconcilers.models import Cause, Heartbeat, WorkItem
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import nudges, requests
from reconcilers.workqueue.sql import DatabaseNow
from reconcilers.workqueue.steps import new_token

ITEMS_PER_STATEMENT = 500


def request_now(reconciler: Reconciler, key: str, *, using: str) -> None:
    """Make a key due now, whatever its backoff and whether or not it is parked, without waking a worker for it."""
    requests.request([(reconciler.name, key)], using=using, nudge=False)
    _make_due(WorkItem.objects.using(using).filter(reconciler=reconciler.name, key=key), reset=False)


def requeue(items: Iterable[int], *, using: str, reset: bool = False) -> int:
    """Make items due now, out of their backoff and parking, wake workers for them and return how many they were.

    One that is running runs once more afterwards. ``reset`` forgets their failed attempts too.
    """
    found = WorkItem.objects.using(using).filter(id__in=list(items))
    with transaction.atomic(using=using):
        count = _make_due(found, reset=reset)
        nudges.on_commit(list(found.values_list("reconciler", "key")), using)
    return count


def park(items: Iterable[int], *, using: str, reason: str) -> int:
    """Park items that no worker holds, and return how many they were; a change of their object unparks them."""
    return (
        WorkItem.objects.using(using)
        .filter(_free(), id__in=list(items), parked_at=None)
        .update(
            parked_at=DatabaseNow(),
            due_at=None,
            last_error=reason,
            # A worker that was taken for dead must not find its lease again.
            lease_token=F("lease_token") + 1,
            lease_until=None,
            lease_owner="",
        )
    )


def rename(old: str, new: str, *, using: str) -> int:
    """Move the items of reconciler ``old`` to ``new`` and return how many they were.

    A key that both have keeps ``new``'s item, which is made due.
    """
    with transaction.atomic(using=using):
        items = WorkItem.objects.using(using).filter(reconciler=old)
        both = items.filter(key__in=WorkItem.objects.using(using).filter(reconciler=new).values("key"))
        doubled = list(both.values_list("id", "key"))
        requests.request(((new, key) for _, key in doubled), using=using)
        removed, _ = WorkItem.objects.using(using).filter(id__in=[item for item, _ in doubled]).delete()
        Heartbeat.objects.using(using).filter(name=f"scan:{old}").delete()
        return removed + items.update(reconciler=new)


def remove(name: str, keys: Iterable[str] | None = None, *, using: str) -> int:
    """Delete items of the reconciler of this name, all or those of ``keys``, and return how many they were.

    For a reconciler that is no more, or keys that its model no longer has: the scan would make the others again.
    Those that a worker holds are left. Each chunk is a transaction of its own.
    """
    found = WorkItem.objects.using(using).filter(_free(), reconciler=name)
    if keys is not None:
        found = found.filter(key__in=list(keys))
    removed = 0
    while some := list(found.values_list("id", flat=True)[:ITEMS_PER_STATEMENT]):
        chunk, _ = WorkItem.objects.using(using).filter(_free(), id__in=some).delete()
        removed += chunk
    if keys is None:
        Heartbeat.objects.using(using).filter(name=f"scan:{name}").delete()
    return removed


def _free() -> Q:
    return Q(lease_until=None) | Q(lease_until__lte=DatabaseNow())


def _make_due(items: QuerySet[WorkItem], *, reset: bool) -> int:
    forgotten: dict[str, Any] = {"attempts": 0} if reset else {}
    return items.update(
        request_token=new_token(),
        cause=Cause.CHANGE,
        due_at=DatabaseNow(),
        not_before=None,
        parked_at=None,
        nudged_at=None,
        **forgotten,
    )

"""GuardedWrites: the writing methods that a queryset and its manager have in common, with their types.

Mixed into the queryset, which hands them to its manager as Django does; the manager's type takes them from here too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from asgiref.sync import sync_to_async
from django.db import models, transaction

from occ.backoff import Backoff
from occ.bulk import bulk_update
from occ.exceptions import Conflict
from occ.fields import get_version, only_unguarded, version_field
from occ.keys import comparable
from occ.locks import lock_row
from occ.retry import LOCK_AFTER, Attempts
from occ.snapshots import Snapshot, save_changes

_M = TypeVar("_M", bound=models.Model)

WROTE_ITSELF = (
    "fn itself wrote this row past the copy that it was given, through another object or a queryset. Change the copy; "
    "mutate writes it."
)


class GuardedWrites(Generic[_M]):
    """``bulk_update`` and ``mutate``: writes of rows that must still be at the version that was read."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, *args):  # as Django's querysets: a parameter is for type checkers only
            return cls

    @overload
    def bulk_update(
        self,
        objs: Iterable[_M],
        fields: Iterable[str],
        batch_size: int | None = None,
        *,
        on_conflict: Literal["raise"] = "raise",
    ) -> int: ...
    @overload
    def bulk_update(
        self,
        objs: Iterable[_M],
        fields: Iterable[str],
        batch_size: int | None = None,
        *,
        on_conflict: Literal["skip"],
    ) -> list[_M]: ...
    def bulk_update(
        self,
        objs: Iterable[_M],
        fields: Iterable[str],
        batch_size: int | None = None,
        *,
        on_conflict: str = "raise",
    ) -> int | list[_M]:
        """Write ``fields`` of many objects, each only if its row is still at the version that was read.

        The versions in memory move along. As with Django's ``bulk_update`` no ``save`` and no signal is run, and
        ``auto_now`` fields are left alone. Fields named in ``occ_unguarded_fields``, written alone, are neither
        checked nor do they move the version.

        Args:
            on_conflict: ``"raise"`` writes all or nothing; ``"skip"`` writes the rows that did not move.

        Returns:
            The number of rows written; with ``"skip"`` the list of the stale objects, which were not.

        Raises:
            BulkConflict: some rows moved or went; ``conflicts`` names each of them. Nothing was written.
            ValueError: a wrong argument; two of the objects are the same row.
        """
        if on_conflict not in ("raise", "skip"):
            raise ValueError(f'on_conflict must be "raise" or "skip", not {on_conflict!r}.')
        queryset = cast("models.QuerySet[_M, _M]", self)
        plain_bulk_update: Callable[..., int] = cast(Any, super()).bulk_update
        objs, names = list(objs), list(fields)
        plain_bulk_update((), names, batch_size)  # refuses wrong names and sizes
        opts = queryset.model._meta
        written = [cast("models.Field[Any, Any]", opts.get_field(name)) for name in names]
        version = version_field(queryset.model)
        ordering = {"_order"} if opts.order_with_respect_to else set()  # set_order() knows no versions
        unsupported = queryset.query.is_sliced or queryset.query.combinator  # refused by Django
        if version is None or unsupported or only_unguarded(queryset.model, names) or set(names) <= ordering:
            rows = plain_bulk_update(objs, names, batch_size)
            return [] if on_conflict == "skip" else rows
        if not all(obj._is_pk_set() for obj in objs):  # type: ignore[attr-defined]
            raise ValueError("All bulk_update() objects must have a primary key set.")
        if len({comparable(queryset.model, obj.pk) for obj in objs}) < len(objs):
            raise ValueError("bulk_update() was given the same row twice; the second write would be stale.")
        owners = getattr(queryset.model, "_occ_managed_fields", None)
        written = [field for field in written if field is not version and field is not owners]
        for obj in objs:
            obj._prepare_related_fields_for_save(operation_name="bulk_update", fields=written)  # type: ignore[attr-defined]
        queryset._for_write = True  # type: ignore[attr-defined]
        stale = bulk_update(queryset, objs, written, batch_size, skip=on_conflict == "skip") if objs else []
        return stale if on_conflict == "skip" else len(objs)

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    async def abulk_update(self, objs: Any, fields: Any, batch_size: int | None = None, **options: Any) -> Any:
        """Do as ``bulk_update`` does, in a thread."""
        return await sync_to_async(self.bulk_update)(objs, fields, batch_size, **options)

    abulk_update.alters_data = True  # type: ignore[attr-defined]

    def mutate(
        self,
        pk: Any,
        fn: Callable[[_M], object],
        *,
        backoff: Backoff | None = None,
        lock_after: int | None = LOCK_AFTER,
        atomic: bool = True,
    ) -> _M:
        """Change one row: give ``fn`` a fresh copy, write what it changed, and on a conflict do both again.

        ``fn`` runs once per attempt, each time on a new copy, so it may compute from what it finds; effects outside
        the copy are its own affair. What it returns is ignored. It may save the copy by hand as well. Nothing
        changed: nothing is written, and the version stays. Otherwise one guarded UPDATE writes the changed columns
        (and ``auto_now`` ones). After a conflict, or where writers of this process were refused of late, an attempt
        queues for its turn at the row first (not on SQLite). After ``lock_after`` conflicts, and on the last attempt,
        the row is read under its lock, so that a hot row cannot starve the caller. Inside an open transaction that
        lock is held to its end, and there are no turns.

        Args:
            pk: the primary key of the row; the queryset's filters apply too.
            fn: changes the object that it is given.
            backoff: the waits and the number of attempts; by default 10, from 2 ms, full jitter.
            lock_after: conflicts before the lock is taken, by default 2; None: never, nor a turn.
            atomic: False runs the attempts without a transaction around them (and so without lock and turn).

        Returns:
            The object as it was saved, or as it was read when nothing changed.

        Raises:
            Conflict: the last attempt was refused too, or the surrounding transaction allows no further one.
            DoesNotExist: there is no such row (any more).
        """
        queryset = cast("models.QuerySet[_M, _M]", self)
        queryset._for_write = True  # type: ignore[attr-defined]
        using = queryset.db
        row = queryset.model, pk
        attempts = Attempts(using=using, backoff=backoff, lock_after=lock_after, atomic=atomic, row=row)

        def attempt() -> _M:
            locked = attempts.under_lock
            instance = read_row(queryset, pk, using, lock=locked)
            try:
                _change(instance, fn, using)
            except Conflict as conflict:
                if locked and conflict.instance is instance:
                    conflict.add_note(WROTE_ITSELF)  # nobody else can: the row is locked
                raise
            return instance

        return attempts.run(attempt)

    mutate.alters_data = True  # type: ignore[attr-defined]

    async def amutate(
        self,
        pk: Any,
        fn: Callable[[_M], object],
        *,
        backoff: Backoff | None = None,
        lock_after: int | None = LOCK_AFTER,
        atomic: bool = True,
    ) -> _M:
        """Do as ``mutate`` does, in a thread; ``fn`` is an ordinary function."""
        return await sync_to_async(self.mutate)(pk, fn, backoff=backoff, lock_after=lock_after, atomic=atomic)

    amutate.alters_data = True  # type: ignore[attr-defined]


def read_row(queryset: models.QuerySet[_M, _M], pk: Any, using: str, *, lock: bool) -> _M:
    fresh = queryset.using(using)
    query = fresh.query
    joined = query.select_related or query.group_by is not None or query.distinct or query.where
    if lock and transaction.get_connection(using).features.has_select_for_update and not joined:
        fresh = fresh.select_for_update()
    elif lock:  # FOR UPDATE cannot go with outer joins, GROUP BY and DISTINCT: the row alone is locked first
        lock_row(queryset.model, pk, using)
    instance = fresh.get(pk=pk)
    get_version(instance)
    return instance


def _change(instance: models.Model, fn: Callable[[Any], object], using: str) -> None:
    """Call ``fn`` on a copy that was just read, and write what it changed."""
    snapshot = Snapshot.take(instance, using)
    key = instance.pk
    returned = fn(instance)
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError("fn must be an ordinary function: it runs in one transaction, which async code has not.")
    if instance.pk is None:
        raise ValueError(
            f"fn deleted its copy of {instance._meta.label} {key!r}, and mutate has nothing to save. Delete "
            "under @occ.retry_on_conflict: read the object in the function, then call its delete()."
        )
    if instance.pk != key:
        raise ValueError(
            f"fn changed the primary key of {instance._meta.label} {key!r} to {instance.pk!r}. mutate changes "
            "one row in place; create another row with objects.create()."
        )
    save_changes(instance, snapshot)

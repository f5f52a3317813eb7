"""The lock under which a writer that lost too often tries again; knows nothing of attempts."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper


def lock_row(model: type[models.Model], pk: Any, using: str) -> None:
    """Take the lock that a writer of this row has to wait for; it is held to the end of the transaction.

    PostgreSQL and MySQL lock the row. SQLite has one lock for all writers: an UPDATE that matches no row takes it
    before anything is read, so that the read that follows cannot grow stale.
    """
    connection = connections[using]
    if connection.features.has_select_for_update:
        row = model._base_manager.using(using).filter(pk=pk).order_by()
        list(in_turn(row, pk).select_for_update().values_list("pk"))
    else:
        take_write_lock(model, connection)


def in_turn(row: models.QuerySet[Any, Any], pk: Any) -> models.QuerySet[Any, Any]:
    """Have ``row``, a query FOR UPDATE of one row, queue behind the others that want to lock it.

    PostgreSQL wakes everybody who waits for a row when it was changed, and whoever comes first has it; those who wait
    for an advisory lock are served in order. It is taken in the WHERE of the same statement, that is before the row is
    locked, which then shows its newest version as always. Other writers do not know that lock, so the row has to be
    locked as well. It is held to the end of the transaction. Two keys that share a number wait for each other, and no
    harm is done.
    """
    if connections[row.db].vendor != "postgresql":
        return row
    name = f"occ {row.model._meta.concrete_model._meta.db_table} {pk}"
    number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
    return row.filter(_Turn(models.Value(number)))


class _Turn(models.Func):
    function = "pg_advisory_xact_lock"
    template = "%(function)s(%(expressions)s) IS NOT NULL"
    output_field = models.BooleanField()


def take_write_lock(model: type[models.Model], connection: BaseDatabaseWrapper) -> None:
    """Take the database's only write lock (SQLite), without a change."""
    quote = connection.ops.quote_name
    opts = model._meta.concrete_model._meta  # type: ignore[union-attr]
    column = quote(str(opts.local_concrete_fields[0].column))  # a child's first field may be in its parent's table
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {quote(opts.db_table)} SET {column} = {column} WHERE 1 = 0")  # noqa: S608

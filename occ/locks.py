"""The lock under which a writer that lost too often tries again; knows nothing of attempts."""

from __future__ import annotations

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
        version = getattr(model, "_occ_version_field", None)
        # The version may be in a parent's table, whose row has to be locked too.
        list(row.select_for_update().values_list("pk" if version is None else version.name))
    else:
        take_write_lock(model, connection)


def take_write_lock(model: type[models.Model], connection: BaseDatabaseWrapper) -> None:
    """Take the database's only write lock (SQLite), without a change."""
    quote = connection.ops.quote_name
    opts = model._meta.concrete_model._meta  # type: ignore[union-attr]
    column = quote(str(opts.local_concrete_fields[0].column))  # a child's first field may be in its parent's table
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {quote(opts.db_table)} SET {column} = {column} WHERE 1 = 0")  # noqa: S608

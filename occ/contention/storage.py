"""The statements that store counts, on a connection of their own: one upsert per table, and now and then a clean-up.

Never on the connection of the code that writes: its transaction could be rolled back, and the counts with it; and rows
that many processes add to would stay locked until it ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from occ.contention.collisions import Collided
from occ.contention.counting import CONFLICTS, WRITES, Counts
from occ.contention.models import HALF_HOUR, KEPT, MINUTE, Bucket, Collision

# Writers stored by one statement, each in two rows of seven values: SQLite allowed 999 parameters for long.
WRITERS_PER_STATEMENT = 70


@contextmanager
def own_connection(alias: str) -> Iterator[BaseDatabaseWrapper | None]:
    """Open a connection that nobody else uses, and close it; None where a second one would see another database."""
    connection = connections.create_connection(alias)
    connection.settings_dict = {**connection.settings_dict, "AUTOCOMMIT": True}  # nobody commits here
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        yield None
        return
    try:
        yield connection
    finally:
        connection.close()


def store_counts(connection: BaseDatabaseWrapper, counts: Counts, at: float) -> None:
    """Add the counts to the buckets that ``at``, in seconds since 1970, lies in."""
    rows = [
        (width, int(at) // width * width, *writer, tally[WRITES], tally[CONFLICTS])
        for width in (MINUTE, HALF_HOUR)
        for writer, tally in counts.items()
    ]
    # Sorted, so that two processes lock the rows in the same order.
    columns = ("width", "start", "model", "reconciler", "manager", "writes", "conflicts")
    _upsert(connection, Bucket, columns, sorted(rows), key=columns[:5], adding=columns[5:])


def store_collisions(connection: BaseDatabaseWrapper, collisions: dict[Collided, int], at: float) -> None:
    """Add the collisions to those of the half hour that ``at`` lies in."""
    start = int(at) // HALF_HOUR * HALF_HOUR
    rows = []
    for collided, count in collisions.items():
        facts = (start, collided.model, collided.writer, collided.mine, collided.theirs)
        rows.append((hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest(), *facts, count))
    columns = ("digest", "start", "model", "writer", "mine", "theirs", "count")
    _upsert(connection, Collision, columns, sorted(rows), key=columns[:1], adding=columns[6:])


def prune(connection: BaseDatabaseWrapper, at: float) -> None:
    """Delete the buckets that are older than what is kept."""
    quote = connection.ops.quote_name
    width, start = quote("width"), quote("start")
    with connection.cursor() as cursor:
        for each, kept in KEPT.items():
            cursor.execute(
                f"DELETE FROM {quote(Bucket._meta.db_table)} WHERE {width} = %s AND {start} < %s",  # noqa: S608
                [each, int(at) - kept],
            )
        cursor.execute(
            f"DELETE FROM {quote(Collision._meta.db_table)} WHERE {start} < %s",  # noqa: S608
            [int(at) - KEPT[HALF_HOUR]],
        )


def totals_since(connection: BaseDatabaseWrapper, start: float) -> dict[str, tuple[int, int]]:
    """Return the writes and conflicts of each model, by label, in the minutes that begin at ``start`` or later."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT model, SUM(writes), SUM(conflicts) FROM {quote(Bucket._meta.db_table)} "  # noqa: S608
            f"WHERE {quote('width')} = %s AND {quote('start')} >= %s GROUP BY model",
            [MINUTE, int(start)],
        )
        return {model: (int(writes), int(conflicts)) for model, writes, conflicts in cursor.fetchall()}


def _upsert(
    connection: BaseDatabaseWrapper,
    model: type[Bucket] | type[Collision],
    columns: Sequence[str],
    rows: list[tuple[Any, ...]],
    *,
    key: Sequence[str],
    adding: Sequence[str],
) -> None:
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)
    if connection.vendor == "mysql":
        clause = "ON DUPLICATE KEY UPDATE"
        sums = [f"{quote(name)} = {quote(name)} + VALUES({quote(name)})" for name in adding]
    else:
        clause = f"ON CONFLICT ({', '.join(map(quote, key))}) DO UPDATE SET"
        sums = [f"{quote(name)} = {table}.{quote(name)} + excluded.{quote(name)}" for name in adding]
    place = f"({', '.join(['%s'] * len(columns))})"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(map(quote, columns))}) "  # noqa: S608
            f"VALUES {', '.join([place] * len(rows))} {clause} {', '.join(sums)}",
            [value for row in rows for value in row],
        )

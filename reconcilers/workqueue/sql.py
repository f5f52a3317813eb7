"""The statements of the queue, in the words of each database.

Every one is a single conditional statement, so that it is right whatever runs beside it. Times come from the
database's clock, never from a worker's: two workers' clocks differ, and a lease is a promise between them.

On MySQL assignments take effect from left to right, so a column is assigned after those that are computed from it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Func, Value

from reconcilers.models import Cause, Heartbeat, WorkItem

Row = tuple[Any, ...]

# Seconds by which tests move the clock that all statements read.
clock_offset: ContextVar[float] = ContextVar("reconcilers_clock_offset", default=0.0)


class Dialect:
    """What differs between databases: the clock, RETURNING, upserts.

    The clock stands still during a statement, which keeps indexes usable, and moves between the statements of one
    transaction; PostgreSQL's ``now()`` would not, and MySQL's ``NOW()`` is in the session's time zone.
    """

    def __init__(self, vendor: str, *, returning: bool) -> None:
        self.vendor = vendor
        self.returning = returning
        self.table = WorkItem._meta.db_table
        self.heartbeat = Heartbeat._meta.db_table
        self.key = "`key`" if vendor == "mysql" else '"key"'
        self.cursor = "`cursor`" if vendor == "mysql" else "cursor"
        self.old = "" if vendor == "mysql" else f"{self.table}."
        self.now = self.at("now")

    def at(self, name: str) -> str:
        """Return SQL for the database's clock plus the seconds of parameter ``name``."""
        if self.vendor == "postgresql":
            return f"(statement_timestamp() + make_interval(secs => %({name})s))"
        if self.vendor == "mysql":
            return f"(UTC_TIMESTAMP(6) + INTERVAL %({name})s MICROSECOND)"
        return f"(strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %({name})s) || '000')"

    def seconds(self, value: float) -> Any:
        """Return ``value`` seconds from now as the parameter that ``at`` takes."""
        value += clock_offset.get()
        if self.vendor == "postgresql":
            return float(value)
        return round(value * 1_000_000) if self.vendor == "mysql" else f"{value:+.6f} seconds"

    def inserted(self, column: str) -> str:
        """Return SQL for the value that an upsert tried to insert."""
        return f"VALUES({column})" if self.vendor == "mysql" else f"excluded.{column}"

    def on_duplicate(self, *columns: str) -> str:
        """Return SQL that begins the update half of an upsert."""
        if self.vendor == "mysql":
            return "ON DUPLICATE KEY UPDATE"
        return f"ON CONFLICT ({', '.join(columns)}) DO UPDATE SET"


@functools.cache
def _dialect(vendor: str, returning: bool) -> Dialect:
    return Dialect(vendor, returning=returning)


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of a connection's database."""
    vendor = connection.vendor
    returning = vendor != "mysql" and bool(connection.features.can_return_columns_from_insert)
    return _dialect(vendor, returning)


class DatabaseNow(Func):
    """The database's clock, plus ``seconds``, in ORM queries."""

    output_field = models.DateTimeField()

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(Value(seconds, output_field=models.FloatField()))
        self.ahead = seconds

    def as_sql(  # type: ignore[override]
        self, compiler: Any, connection: BaseDatabaseWrapper, **kwargs: Any
    ) -> tuple[str, tuple[Any, ...]]:
        dialect = dialect_of(connection)
        return dialect.at("t").replace("%(t)s", "%s"), (dialect.seconds(self.ahead),)


def execute(using: str, sql: str, parameters: Mapping[str, Any]) -> int:
    """Run a statement and return the number of rows it wrote."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def fetch(using: str, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Run a statement and return its rows."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


CLAIMED = "id, {key}, request_token, cause, attempts, lease_token"


@functools.lru_cache(maxsize=64)  # there are as many as there are numbers of rows
def enqueue(d: Dialect, rows: int, *, nudged: bool) -> str:
    """Insert items, or ask for them again: always a write, so that whoever runs them meets this transaction.

    Due at the earlier of the two times, but not before the backoff floor. A change unparks; the clock does not.
    """
    nudged_at = f", {d.at('nudged')}" if nudged else ""
    values = ", ".join(
        f"(%(reconciler{n})s, %(key{n})s, %(token{n})s, %(cause)s, {d.at('due')}, 0, 0, '', '', {d.now}{nudged_at})"
        for n in range(rows)
    )
    old, due = d.old, d.inserted("due_at")
    # Not before the floor of a failing key.
    asked = f"CASE WHEN {old}not_before > {due} THEN {old}not_before ELSE {due} END"
    stays_parked = f"{old}parked_at IS NOT NULL AND %(unpark)s = 0"
    return f"""
        INSERT INTO {d.table} (reconciler, {d.key}, request_token, cause, due_at, attempts, lease_token, lease_owner,
            last_error, created_at{", nudged_at" if nudged else ""})
        VALUES {values}
        {d.on_duplicate("reconciler", d.key)}
            request_token = {d.inserted("request_token")},
            cause = CASE WHEN {old}due_at IS NOT NULL AND {old}cause < {d.inserted("cause")}
                THEN {old}cause ELSE {d.inserted("cause")} END,
            due_at = CASE WHEN {stays_parked} THEN NULL WHEN {old}due_at <= {asked} THEN {old}due_at
                ELSE {asked} END,
            parked_at = CASE WHEN {stays_parked} THEN {old}parked_at ELSE NULL END
            {f", nudged_at = {d.inserted('nudged_at')}" if nudged else ""}
    """  # noqa: S608


def _claimable(d: Dialect) -> str:
    # An expired lease is due whatever due_at says; at max_attempts its key has killed too many workers (sweep parks).
    return f"""parked_at IS NULL AND (lease_until IS NULL AND due_at <= {d.now}
        OR lease_until <= {d.now} AND attempts < %(max_attempts)s)"""


def _take(d: Dialect) -> str:
    # A request that is still ahead (only beside an expired lease) stays.
    return f"""due_at = CASE WHEN due_at > {d.now} THEN due_at ELSE NULL END, attempts = attempts + 1,
        lease_token = lease_token + 1, lease_owner = %(owner)s, lease_until = {d.at("lease")}, nudged_at = NULL"""


@functools.cache
def claim(d: Dialect) -> str:
    """Take the lease of one key if it is due and free."""
    wanted = f"reconciler = %(reconciler)s AND {d.key} = %(key)s AND {_claimable(d)}"
    if d.vendor == "postgresql":
        # Past an item that somebody's open transaction asks for: its commit will wake a worker again.
        wanted = f"id = (SELECT id FROM {d.table} WHERE {wanted} FOR UPDATE SKIP LOCKED)"  # noqa: S608
    sql = f"UPDATE {d.table} SET {_take(d)} WHERE {wanted}"  # noqa: S608
    return f"{sql} RETURNING {CLAIMED.format(key=d.key)}" if d.returning else sql


@functools.cache
def claimed(d: Dialect) -> str:
    """Read what ``claim`` took, where UPDATE returns no rows."""
    return f"""
        SELECT {CLAIMED.format(key=d.key)} FROM {d.table}
        WHERE reconciler = %(reconciler)s AND {d.key} = %(key)s AND lease_owner = %(owner)s
    """  # noqa: S608


def _due(d: Dialect) -> str:
    return f"""reconciler = %(reconciler)s AND cause = %(cause)s AND due_at <= {d.now}
        AND lease_until IS NULL AND parked_at IS NULL"""


@functools.cache
def claim_many(d: Dialect) -> str:
    """Take the leases of the keys that wait longest for one cause, past those that another transaction holds."""
    skip = "FOR UPDATE SKIP LOCKED" if d.vendor == "postgresql" else ""
    chosen = f"SELECT id FROM {d.table} WHERE {_due(d)} ORDER BY due_at LIMIT %(limit)s {skip}"  # noqa: S608
    # As an array the choice is made once; PostgreSQL may run a subquery again for each row, and take too many.
    among = f"= ANY(ARRAY({chosen}))" if d.vendor == "postgresql" else f"IN ({chosen})"
    return f"""
        UPDATE {d.table} SET {_take(d)} WHERE id {among} RETURNING {CLAIMED.format(key=d.key)}
    """  # noqa: S608


@functools.cache
def lock_due(d: Dialect) -> str:
    """Lock those of the listed items that are due and that no other transaction holds, and read them."""
    return f"""
        SELECT {CLAIMED.format(key=d.key)} FROM {d.table} WHERE id IN %(ids)s AND {_due(d)} FOR UPDATE SKIP LOCKED
    """  # noqa: S608


@functools.cache
def claim_locked(d: Dialect) -> str:
    """Take the leases of items that this transaction has locked."""
    return f"UPDATE {d.table} SET {_take(d)} WHERE id IN %(ids)s"  # noqa: S608


_HELD = "id = %(id)s AND lease_token = %(lease_token)s AND lease_until IS NOT NULL"
_FREE = "lease_until = NULL, lease_owner = ''"


def _earlier(d: Dialect, name: str) -> str:
    return f"CASE WHEN due_at < {d.at(name)} THEN due_at ELSE {d.at(name)} END"


@functools.cache
def finish(d: Dialect, *, again: bool, unchanged: bool) -> str:
    """End a run that succeeded. ``unchanged``: only if nobody asked for the key since the claim."""
    due = _earlier(d, "next") if again else "due_at"
    renewed = ", request_token = %(new_token)s, cause = %(cause)s" if unchanged else ""
    sql = f"""
        UPDATE {d.table} SET due_at = {due}, attempts = 0, not_before = NULL, last_error = '', {_FREE},
            last_success_at = {d.now}, observed_version = %(version)s{renewed}
        WHERE {_HELD}
    """  # noqa: S608
    return f"{sql} AND request_token = %(request_token)s" if unchanged else sql


@functools.cache
def back_off(d: Dialect) -> str:
    """End a run that failed: due, and held back, until the backoff is over."""
    return f"""
        UPDATE {d.table} SET due_at = {d.at("next")}, not_before = {d.at("next")}, last_error = %(error)s, {_FREE}
        WHERE {_HELD}
    """  # noqa: S608


@functools.cache
def park(d: Dialect) -> str:
    """End a run that shall not be repeated, unless somebody asked for the key since the claim."""
    return f"""
        UPDATE {d.table} SET parked_at = {d.now}, due_at = NULL, not_before = {d.at("next")},
            last_error = %(error)s, {_FREE}
        WHERE {_HELD} AND request_token = %(request_token)s
    """  # noqa: S608


@functools.cache
def release(d: Dialect) -> str:
    """Give the lease back unused: due now, and not charged."""
    return f"""
        UPDATE {d.table} SET due_at = {_earlier(d, "now")}, attempts = attempts - 1, {_FREE}
        WHERE {_HELD} AND attempts > 0
    """  # noqa: S608


@functools.cache
def remove(d: Dialect) -> str:
    """Delete the item of a row that is gone, unless somebody asked for the key since the claim."""
    return f"DELETE FROM {d.table} WHERE {_HELD} AND request_token = %(request_token)s"  # noqa: S608


@functools.cache
def extend(d: Dialect) -> str:
    """Start the lease anew."""
    return f"UPDATE {d.table} SET lease_until = {d.at('lease')} WHERE {_HELD}"  # noqa: S608


@functools.cache
def due(d: Dialect) -> str:
    """List the keys that are due for one cause and free, those that wait longest first, always in one order.

    Without the id each sweep could take others of those that are due at one instant for the first ones, and wake
    workers for more than the window.
    """
    return f"""
        SELECT id, {d.key}, nudged_at IS NOT NULL AND nudged_at > {d.at("nudged_since")} FROM {d.table}
        WHERE {_due(d)} ORDER BY due_at, id LIMIT %(limit)s
    """  # noqa: S608


@functools.cache
def peek(d: Dialect, reconcilers: int) -> str:
    """Tell for each reconciler whether anything is due, cause by cause, and whether a lease has ended. No locks."""
    anything = []
    for n in range(reconcilers):
        name = f"reconciler = %(reconciler{n})s"
        for cause in Cause:
            due_for = f"{name} AND cause = {cause.value} AND due_at <= {d.now}"
            free = "lease_until IS NULL AND parked_at IS NULL"
            anything.append(f"EXISTS (SELECT 1 FROM {d.table} WHERE {due_for} AND {free})")  # noqa: S608
        anything.append(f"EXISTS (SELECT 1 FROM {d.table} WHERE lease_until <= {d.now} AND {name})")  # noqa: S608
    return f"SELECT {', '.join(anything)}"


@functools.cache
def expired(d: Dialect) -> str:
    """List keys whose lease has ended without a word from its worker."""
    return f"""
        SELECT id, {d.key}, nudged_at IS NOT NULL AND nudged_at > {d.at("nudged_since")} FROM {d.table}
        WHERE lease_until <= {d.now} AND reconciler = %(reconciler)s
        ORDER BY lease_until LIMIT %(limit)s
    """  # noqa: S608


@functools.cache
def park_poison(d: Dialect) -> str:
    """Park the keys whose worker died in each of ``max_attempts`` runs."""
    return f"""
        UPDATE {d.table} SET parked_at = {d.now}, due_at = NULL, not_before = {d.at("next")},
            last_error = %(error)s, {_FREE}
        WHERE lease_until <= {d.now} AND reconciler = %(reconciler)s AND attempts >= %(max_attempts)s
    """  # noqa: S608


@functools.cache
def beat(d: Dialect) -> str:
    """Note that a periodic job ran now."""
    return f"""
        INSERT INTO {d.heartbeat} (name, beat_at, {d.cursor}) VALUES (%(name)s, {d.now}, '')
        {d.on_duplicate("name")} beat_at = {d.inserted("beat_at")}
    """  # noqa: S608


@functools.cache
def want(d: Dialect) -> str:
    """Let a periodic job begin anew, now, at a place of its own."""
    return f"""
        INSERT INTO {d.heartbeat} (name, due_at, {d.cursor}) VALUES (%(name)s, {d.now}, %(cursor)s)
        {d.on_duplicate("name")} due_at = {d.inserted("due_at")}, {d.cursor} = {d.inserted(d.cursor)}
    """  # noqa: S608

"""Isolation levels of the database under test, and what its sessions wait for."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

from django.db import connection

from tests.kit.waiting import eventually

# SQLite has one kind of snapshot; what differs is whether a transaction takes the write lock when it begins.
LEVELS = (
    ["READ COMMITTED", "REPEATABLE READ"]
    if urlsplit(os.environ.get("DATABASE_URL", "")).scheme not in ("", "sqlite")
    else ["IMMEDIATE", "DEFERRED"]
)
SNAPSHOTS = ("REPEATABLE READ", "DEFERRED")  # where a transaction goes on reading what it read first


def set_level(level: str) -> None:
    """Have the calling thread's connection run its coming transactions at ``level``."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        connection.transaction_mode = level  # type: ignore[attr-defined]
        return
    statement = {
        "postgresql": f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}",
        "mysql": f"SET SESSION TRANSACTION ISOLATION LEVEL {level}",
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(statement)


def wait_until_blocked(number: int, done: Callable[[], bool]) -> None:
    """Return once the session of this ``session_number`` waits for a lock, or ``done``. SQLite tells nothing."""
    if connection.vendor != "sqlite":
        eventually(lambda: done() or _waits(number), timeout=60, interval=0.005, what="blocked or done")


def session_number() -> int:
    """Return what the server calls the calling thread's connection."""
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT CONNECTION_ID()")
        return int(cursor.fetchone()[0])


def _waits(number: int) -> bool:
    statement, params = {
        "postgresql": ("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", [number]),
        # Of one session InnoDB tells only what it knew when it was last asked, a tenth of a second ago. Of the whole
        # server it tells at once: where other tests run on it, the wait may end early, which makes no outcome wrong.
        "mysql": (
            "SELECT 1 FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits' "
            "AND variable_value > 0",
            [],
        ),
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone() is not None

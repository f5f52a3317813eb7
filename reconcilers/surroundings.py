"""What users' code must leave as it found it: its process, and the transactions of its thread's connections.

A worker goes on with other keys afterwards. A transaction left open would hold back all that these write, and a forked
child that came back would speak on the worker's own connections.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("reconcilers")

EXIT_STATUS = 70  # sysexits.h: an error of the software


@contextmanager
def left_as_found(name: str) -> Iterator[None]:
    """Roll back the transactions that the block leaves open, and end a child process that leaves it.

    Raises:
        RuntimeError: a transaction was left open or ended by SQL, or autocommit was switched.
    """
    worker = os.getpid()
    begun = [each for each in connections.all(initialized_only=True) if _begun(each)]
    found = {
        each.alias: (len(each.atomic_blocks), each.autocommit)
        for each in connections.all(initialized_only=True)
        if each.connection is not None
    }
    try:
        yield
    finally:
        if os.getpid() != worker:
            logger.critical("A child process that %s forked came back from it, and is ended: use os._exit.", name)
            os._exit(EXIT_STATUS)
        left = [each.alias for each in connections.all(initialized_only=True) if _restore(each, *_found(found, each))]
    if left:
        raise RuntimeError(
            f"{name} left a transaction open on database {', '.join(left)}, and it was rolled back. Leave each "
            "atomic() block that you enter, and autocommit as it is."
        )
    if ended := [each.alias for each in begun if each.in_atomic_block and _begun(each) is False]:
        raise RuntimeError(
            f"{name} ended its run's transaction on database {', '.join(ended)} by SQL of its own: what it wrote until "
            "then stays. Leave COMMIT and ROLLBACK to transaction.atomic()."
        )


def _begun(connection: BaseDatabaseWrapper) -> bool | None:
    """Whether the database is in a transaction, as the driver knows without asking; None where it does not."""
    raw: Any = connection.connection
    if raw is None:
        return None
    if connection.vendor == "postgresql":
        return bool(raw.info.transaction_status != 0)  # libpq's PQTRANS_IDLE
    return bool(raw.in_transaction) if connection.vendor == "sqlite" else None


def _found(found: dict[str, tuple[int, bool]], connection: BaseDatabaseWrapper) -> tuple[int, bool]:
    return found.get(connection.alias, (0, connection.settings_dict["AUTOCOMMIT"]))


def _restore(connection: BaseDatabaseWrapper, blocks: int, autocommit: bool) -> bool:
    """Bring a connection back to so many open blocks and to its autocommit; return whether it was not there."""
    changed = False
    while len(connection.atomic_blocks) > blocks:
        changed = True
        reason = RuntimeError("left open")
        connection.atomic_blocks[-1].__exit__(RuntimeError, reason, None)
    if connection.connection is None or connection.in_atomic_block:
        return changed
    opened_by_sql = connection.autocommit and _begun(connection)
    if connection.autocommit == autocommit and not opened_by_sql:
        return changed
    try:
        connection.rollback()
        connection.set_autocommit(autocommit)
    except Error:
        connection.close()  # the next use opens another
    return True

"""Taking turns at a row that many write: who was refused there queues before it reads the row again.

The turn comes before the lock of the row, and holds up nobody but others who queue: a plain save, an UPDATE and most
first attempts pass it by. It is taken while nothing else is held, so that no deadlock can come of it, and not waited
for long. It is a lock on model and key that serves those who wait in the order of their coming, while waiters for a row
are all woken when it changes, and whoever comes first has it: PostgreSQL's advisory locks, MySQL's named ones. SQLite
has nothing of the kind.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, OperationalError, connections, models, transaction

# How long a turn is waited for; writers that queue need some milliseconds each.
TURN_SECONDS = 1.0
# For so long after a refusal first attempts queue as well. One attempt of each process is then refused every few
# seconds, to find out whether the row is still hot, and the rest get through.
HOT_SECONDS = 3.0
# How many rows are remembered for that.
SIZE = 1000

_LOCK_NOT_AVAILABLE = "55P03"

_Row = tuple[str, type[models.Model], str]  # the database's alias, the model, the key

_hot_until: dict[_Row, float] = {}  # time.monotonic(); the row that was refused last comes last


class NoTurn(Exception):
    """The turn did not come in time."""


def are_taken(using: str) -> bool:
    """Tell whether there are turns in this database."""
    return connections[using].vendor in ("postgresql", "mysql")


@contextmanager
def transaction_in_turn(model: type[models.Model], pk: Any, using: str) -> Iterator[None]:
    """Open a transaction when it is its turn at the row, and keep that to its end.

    What is read in it shows what came before. Two rows that share a number wait for each other, and no harm is done.

    Raises:
        NoTurn: it took longer than ``TURN_SECONDS``; who holds it may be waiting for this very write.
    """
    number = _number(model, pk)
    if connections[using].vendor == "postgresql":
        with transaction.atomic(using=using):
            _wait_in_transaction(number, using)
            yield
        return
    _wait_in_session(number, using)
    try:
        with transaction.atomic(using=using):
            yield
    finally:
        _leave(number, using)


def _wait_in_transaction(number: int, using: str) -> None:
    """Take an advisory lock that ends with the transaction."""
    try:
        with connections[using].cursor() as cursor:
            # PostgreSQL evaluates the columns of such a SELECT in order, so the limit is for this lock alone.
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true), pg_advisory_xact_lock(%s),"
                " set_config('lock_timeout', own, true)"
                " FROM (SELECT current_setting('lock_timeout') AS own OFFSET 0) AS settings",
                [f"{TURN_SECONDS * 1000:.0f}ms", number],
            )
    except OperationalError as error:
        cause: Any = error.__cause__
        if getattr(cause, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise NoTurn from error


# MySQL's names are the server's, and of 64 characters at most.
_NAME = "MD5(CONCAT('occ ', DATABASE(), ' ', %s))"


def _wait_in_session(number: int, using: str) -> None:
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK({_NAME}, %s)", [number, TURN_SECONDS])
            (taken,) = cursor.fetchone()
    except DatabaseError as error:  # some clusters forbid it
        raise NoTurn from error
    if taken != 1:
        raise NoTurn


def _leave(number: int, using: str) -> None:
    connection = connections[using]
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DO RELEASE_LOCK({_NAME})", [number])
    except DatabaseError:  # it is gone with the session, or goes now
        connection.close()


def with_turn(row: models.QuerySet[Any, Any], pk: Any) -> models.QuerySet[Any, Any]:
    """Have ``row``, a query FOR UPDATE of one row, wait for its turn as well, for as long as that takes.

    In the WHERE of the same statement, which is before the row is locked; the row is then shown in its newest version
    as always.
    """
    if connections[row.db].vendor != "postgresql":  # InnoDB serves in order
        return row
    return row.filter(_Turn(models.Value(_number(row.model, pk))))


class _Turn(models.Func):
    function = "pg_advisory_xact_lock"
    template = "%(function)s(%(expressions)s) IS NOT NULL"
    output_field = models.BooleanField()


def _number(model: type[models.Model], pk: Any) -> int:
    """Return the number of a row's lock. All models that share the row share it."""
    field = getattr(model, "_occ_version_field", None)
    opts: Any = (model if field is None else field.model)._meta
    name = f"occ {opts.db_table} {pk}"
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)


def note_refusal(model: type[models.Model], pk: Any, using: str) -> None:
    """Remember that a writer of this process was refused at the row."""
    row = using, model, str(pk)
    _hot_until.pop(row, None)
    _hot_until[row] = time.monotonic() + HOT_SECONDS
    if len(_hot_until) > SIZE:
        for oldest in list(_hot_until)[: SIZE // 2]:
            _hot_until.pop(oldest, None)


def is_hot(model: type[models.Model], pk: Any, using: str) -> bool:
    """Tell whether a writer of this process was refused at the row of late."""
    return bool(_hot_until) and _hot_until.get((using, model, str(pk)), 0.0) > time.monotonic()

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
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DatabaseError, Error, OperationalError, connections, models, transaction

# How long a turn is waited for; writers that queue need some milliseconds each.
TURN_SECONDS = 1.0
# For so long after a refusal first attempts queue as well. One attempt of each process is then refused every few
# seconds, to find out whether the row is still hot, and the rest get through.
HOT_SECONDS = 3.0
# How many rows are remembered for that.
SIZE = 1000

_LOCK_NOT_AVAILABLE = "55P03"

_Row = tuple[str, str]  # the database's alias, the row's name

_hot_until: dict[_Row, float] = {}  # time.monotonic(); the row that was refused last comes last


class NoTurn(Exception):
    """The turn did not come in time."""


def rows_have_queues(using: str) -> bool:
    """Tell whether the database serves those who wait for a row's lock in order, so that it needs no turn."""
    return connections[using].vendor != "postgresql"


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
    with ExitStack() as turn:
        turn.callback(_leave, number, using)
        with transaction.atomic(using=using):
            transaction.on_commit(turn.close, using=using)  # the first: those of others may take long
            yield


# PostgreSQL evaluates the columns of such a SELECT in order, so the limit is for this lock alone. A shorter one of the
# session holds as well, and its statement_timeout would be an error. A snapshot that lasts for the transaction is taken
# before the wait, so that whoever waited would read what is old by then: no turns there.
_WAIT = """
    SELECT set_config('lock_timeout', most, true), pg_advisory_xact_lock(%s), set_config('lock_timeout', own, true)
    FROM (
        SELECT current_setting('lock_timeout') AS own,
            ceil(1000 * extract(epoch FROM least(
                %s * interval '1 second',
                nullif(current_setting('lock_timeout')::interval, interval '0'),
                nullif(current_setting('statement_timeout')::interval, interval '0') / 2
            )))::text AS most
        WHERE current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
        OFFSET 0
    ) AS settings
"""


def _wait_in_transaction(number: int, using: str) -> None:
    """Take an advisory lock that ends with the transaction."""
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(_WAIT, [number, TURN_SECONDS])
            if cursor.fetchone() is None:
                raise NoTurn
    except OperationalError as error:
        cause: Any = error.__cause__
        if getattr(cause, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise NoTurn from error


# MySQL's names are the server's, and of 64 characters at most.
_LOCK_NAME = "MD5(CONCAT('occ ', DATABASE(), ' ', %s))"


def _wait_in_session(number: int, using: str) -> None:
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(f"SELECT GET_LOCK({_LOCK_NAME}, %s)", [number, TURN_SECONDS])
            (taken,) = cursor.fetchone()
    except DatabaseError as error:  # some clusters forbid it
        raise NoTurn from error
    except BaseException:  # interrupted, and it may have been given
        _leave(number, using)
        raise
    if taken != 1:
        raise NoTurn


def _leave(number: int, using: str) -> None:
    connection = connections[using]
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DO RELEASE_LOCK({_LOCK_NAME})", [number])
    except Error:  # it is gone with the session, or goes now
        connection.close()


def _name(model: type[models.Model], pk: Any) -> str:
    """Return the name of a row. All models that share the row share it."""
    field = getattr(model, "_occ_version_field", None)
    opts: Any = (model if field is None else field.model)._meta
    return f"{opts.db_table} {pk}"


def _number(model: type[models.Model], pk: Any) -> int:
    """Return the number of a row's lock."""
    name = f"occ {_name(model, pk)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


def note_refusal(model: type[models.Model], pk: Any, using: str) -> None:
    """Remember that a writer of this process was refused at the row."""
    row = using, _name(model, pk)
    _hot_until.pop(row, None)
    _hot_until[row] = time.monotonic() + HOT_SECONDS
    if len(_hot_until) > SIZE:
        for oldest in list(_hot_until)[: SIZE // 2]:
            _hot_until.pop(oldest, None)


def is_hot(model: type[models.Model], pk: Any, using: str) -> bool:
    """Tell whether a writer of this process was refused at the row of late."""
    return bool(_hot_until) and _hot_until.get((using, _name(model, pk)), 0.0) > time.monotonic()

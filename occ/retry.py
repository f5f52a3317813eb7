"""Running work again on a fresh read: what counts as a conflict, when it may be repeated, and after what wait."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from occ import turns
from occ.backoff import Backoff
from occ.exceptions import Conflict
from occ.locks import lock_row

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BACKOFF = Backoff()
LOCK_AFTER = 2  # conflicts after which the next attempt runs under the row's lock

_POSTGRESQL_STATES = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
_MYSQL_CODES = frozenset({1020, 1205, 1213})  # record changed since last read, lock wait timeout, deadlock
_SQLITE_CODES = frozenset({5, 6})  # SQLITE_BUSY (BUSY_SNAPSHOT among its kinds), SQLITE_LOCKED


def is_retryable(error: BaseException, using: str = DEFAULT_DB_ALIAS) -> bool:
    """Tell whether ``error`` means that another writer was in the way, so that a fresh attempt can succeed.

    True for ``Conflict`` and for what the databases say in its place under snapshot isolation or when locks collide:
    SQLSTATE 40001 and 40P01 on PostgreSQL, errors 1020, 1205 and 1213 on MySQL and MariaDB, SQLITE_BUSY and
    SQLITE_LOCKED on SQLite.
    """
    return error.may_be_retried if isinstance(error, Conflict) else _is_lock_error(error, using)


def _is_lock_error(error: BaseException, using: str) -> bool:
    if not isinstance(error, DatabaseError) or isinstance(error, Conflict):
        return False
    vendor = connections[using].vendor
    cause = error.__cause__
    if vendor == "postgresql":
        return getattr(cause, "sqlstate", None) in _POSTGRESQL_STATES
    if vendor == "mysql":
        return bool(error.args) and error.args[0] in _MYSQL_CODES
    if vendor == "sqlite":
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CODES
    return False


class Attempts:
    """The attempts of one piece of work: whether it may run again, under the row's lock or not, after what wait.

    ``row`` is the model and key of the row that is written, where that is known beforehand. ``arguments`` are objects
    that every attempt would use again: a conflict about one of them is final.
    """

    def __init__(
        self,
        *,
        using: str,
        backoff: Backoff | None,
        lock_after: int | None,
        atomic: bool,
        row: tuple[type[models.Model], Any] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        self.using = using
        self.backoff = DEFAULT_BACKOFF if backoff is None else backoff
        self.lock_after = lock_after
        self.atomic = atomic
        self.row = row
        self.arguments = arguments
        self.conflicts = 0
        self.queues = lock_after is not None and atomic and turns.are_taken(using)
        self.last_error: DatabaseError | None = None
        self._delays: Iterator[float] = self.backoff.delays()

    @property
    def under_lock(self) -> bool:
        """Whether the coming attempt shall hold the row's lock: after ``lock_after`` conflicts, and the last one."""
        if not self.conflicts or self.lock_after is None or not (self.atomic or self._in_block()):
            return False
        last = self.backoff.attempts is not None and self.conflicts == self.backoff.attempts - 1
        return last or self.conflicts >= self.lock_after

    def delay_after(self, error: DatabaseError, *, in_block: bool) -> float:
        """Return the seconds to wait after ``error``, or raise it when there must be no further attempt."""
        if not is_retryable(error, self.using):
            raise error
        if isinstance(error, Conflict) and any(error.instance is argument for argument in self.arguments):
            error.add_note("Not retried: the stale object was passed in. Pass its key and read it inside the function.")
            raise error
        if in_block and (reason := self._cannot_succeed_in_block(error)):
            error.add_note(reason)
            raise error
        delay = next(self._delays, None)
        if delay is None:
            raise error
        self.conflicts += 1
        self.last_error = error
        if isinstance(error, Conflict):
            turns.note_refusal(error.model, error.pk, self.using)
        return delay

    def run(self, work: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
        """Run ``work`` until it is not refused, each time in a transaction (a savepoint inside an open one)."""
        while True:
            in_block = self._in_block()
            try:
                if not self.atomic:
                    return work()
                row = None if in_block else self._contested_row()
                if row is None:
                    with transaction.atomic(using=self.using):
                        return work()
                with turns.transaction_in_turn(*row, self.using):
                    return work()
            except turns.NoTurn:
                self.queues = False
                continue
            except DatabaseError as error:
                delay = self.delay_after(error, in_block=in_block)
            sleep(delay)

    def _contested_row(self) -> tuple[type[models.Model], Any] | None:
        """Return the row at which the coming attempt shall queue, if it shall: after a conflict, or where it is hot."""
        if not self.queues or (self.under_lock and turns.rows_have_queues(self.using)):
            return None
        if self.conflicts:
            error = self.last_error
            return self.row or ((error.model, error.pk) if isinstance(error, Conflict) else None)
        return self.row if self.row is not None and turns.is_hot(*self.row, self.using) else None

    def _in_block(self) -> bool:
        connection = connections[self.using]
        return connection.in_atomic_block or not connection.get_autocommit()

    def _cannot_succeed_in_block(self, error: DatabaseError) -> str | None:
        connection = connections[self.using]
        if not isinstance(error, Conflict):
            return (
                "Not retried: the database gave up the surrounding transaction. Leave the atomic block and repeat "
                "it as a whole (retry_on_conflict around it does)."
            )
        if connection.needs_rollback:
            return "Not retried: the surrounding transaction is marked for rollback. Repeat it as a whole."
        if not _fresh_read_shows_the_row(connection):
            return (
                "Not retried: the surrounding transaction reads from a snapshot, so a fresh read would show the old "
                "row again. Repeat the transaction as a whole (retry_on_conflict around it does)."
            )
        return None


def _fresh_read_shows_the_row(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether a new SELECT in the open transaction shows the row that the refused UPDATE met.

    On PostgreSQL and SQLite an UPDATE that matches no row looked at the same rows as a SELECT would (a snapshot that
    was overtaken is an error of its own there). MySQL's UPDATE sees what others committed, its SELECT only does so
    under READ COMMITTED.
    """
    if connection.vendor != "mysql":
        return True
    variable = "tx_isolation" if getattr(connection, "mysql_is_mariadb", False) else "transaction_isolation"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT @@SESSION.{variable}")
        (level,) = cursor.fetchone()
    return str(level).upper() in ("READ-COMMITTED", "READ-UNCOMMITTED")


@overload
def retry_on_conflict(function: F, /) -> F: ...
@overload
def retry_on_conflict(
    *,
    backoff: Backoff | None = None,
    lock_after: int | None = LOCK_AFTER,
    using: str = DEFAULT_DB_ALIAS,
    atomic: bool = True,
) -> Callable[[F], F]: ...
def retry_on_conflict(
    function: F | None = None,
    /,
    *,
    backoff: Backoff | None = None,
    lock_after: int | None = LOCK_AFTER,
    using: str = DEFAULT_DB_ALIAS,
    atomic: bool = True,
) -> F | Callable[[F], F]:
    """Run the function again, whole, when a write in it met a conflict.

    The function must read what it writes: it takes a key, not an object. Each attempt is a transaction of its own;
    inside an open one it is a savepoint, and is repeated only where a new read can see new rows. Attempts are spread
    by ``backoff``. After a conflict they queue for the row that was contested (not on SQLite); after ``lock_after``
    conflicts, and on the last attempt, it is locked first, so that a hot row cannot starve a caller. ``async``
    functions are waited for without blocking, and get neither transaction nor lock, since Django has none for them.

    Args:
        backoff: the waits and the number of attempts; by default 10, from 2 ms, full jitter.
        lock_after: conflicts before the lock is taken, by default 2; None: never, nor a turn.
        using: the alias of the database that the function writes.
        atomic: False runs the attempts without a transaction around them (and so without a lock).

    Raises:
        Conflict: the last attempt was refused too; or at once, when the stale object is one of the function's own
            arguments, since repeating with the same object cannot help.
    """
    if function is None:
        return functools.partial(_retrying, backoff=backoff, lock_after=lock_after, using=using, atomic=atomic)
    return _retrying(function, backoff=backoff, lock_after=lock_after, using=using, atomic=atomic)


def _retrying(function: F, *, backoff: Backoff | None, lock_after: int | None, using: str, atomic: bool) -> F:
    if isinstance(function, classmethod | staticmethod):
        raise TypeError(f"retry_on_conflict takes a function: put it under @{type(function).__name__}, not above it.")
    if not callable(function):
        raise TypeError(f"retry_on_conflict takes a function, not {function!r}; options are named: (backoff=...).")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"retry_on_conflict cannot repeat the generator {function!r}: return a list instead.")

    def attempts(*args: Any, **kwargs: Any) -> Attempts:
        is_async = inspect.iscoroutinefunction(function)
        return Attempts(
            using=using,
            backoff=backoff,
            lock_after=lock_after,
            atomic=atomic and not is_async,
            arguments=(*args, *kwargs.values()),
        )

    @functools.wraps(function)
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        work = attempts(*args, **kwargs)
        while True:
            try:
                return await function(*args, **kwargs)
            except DatabaseError as error:
                delay = work.delay_after(error, in_block=False)
            await asyncio.sleep(delay)

    @functools.wraps(function)
    def run_sync(*args: Any, **kwargs: Any) -> Any:
        work = attempts(*args, **kwargs)

        def attempt() -> Any:
            if work.under_lock and isinstance(work.last_error, Conflict):
                lock_row(work.last_error.model, work.last_error.pk, using)
            return function(*args, **kwargs)

        return work.run(attempt)

    return run_async if inspect.iscoroutinefunction(function) else run_sync  # type: ignore[return-value]

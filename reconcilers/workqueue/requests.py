"""Asking for runs: ``enqueue``, in the transaction of whoever asks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, router, transaction

from reconcilers import registry
from reconcilers.conf import reconciler_settings
from reconcilers.models import Cause
from reconcilers.reconciler import Reconciler, current_run
from reconcilers.result import to_seconds
from reconcilers.workqueue import nudges, sql
from reconcilers.workqueue.steps import new_token

ROWS_PER_STATEMENT = 200


def enqueue(
    reconciler: str | type[Reconciler],
    pk: Any,
    delay: dt.timedelta | float | None = None,
    *,
    using: str | None = None,
) -> None:
    """Ask for a run of ``reconciler`` on the row with primary key ``pk``.

    Takes part in the open transaction, so the request is there if and only if the transaction commits. Requests for a
    key that waits already are one run; a request while it runs is one more. The earliest of several times counts; a
    failing key does not run before its backoff is over, and a parked one runs again.

    Args:
        reconciler: the class or its name.
        pk: the primary key; whether the row exists is not looked at.
        delay: seconds or a timedelta; None: now.
        using: the alias of the database of the row; by default the one that the model is written to.

    Raises:
        UnknownReconciler, InvalidKey: a ``LookupError`` and a ``ValueError``.
        ValueError: ``delay`` is not a duration.
    """
    known = registry.get(reconciler)
    seconds = 0.0 if delay is None else to_seconds("delay", delay)
    alias = using or router.db_for_write(known.model)
    request([(known.name, known.key_for(pk))], using=alias, delay=seconds)


def request(
    keys: Iterable[nudges.Key],
    *,
    using: str,
    delay: float = 0.0,
    cause: Cause = Cause.CHANGE,
    unpark: bool = True,
    nudge: bool = True,
) -> None:
    """Ask for runs of many keys, in order, so that two transactions that ask for the same ones do not deadlock."""
    wanted = sorted(set(keys))
    nudge = nudge and not delay and nudges.enabled()
    marked = nudge and len(wanted) <= nudges.KEYS_PER_NUDGE
    d = sql.dialect_of(connections[using])
    shared = {"cause": cause, "due": d.seconds(delay), "now": d.seconds(0), "unpark": int(unpark)}
    if marked:
        # As if it had been sent so long ago that a sweep repeats it when the grace is over.
        shared["nudged"] = d.seconds(nudges.GRACE_SECONDS - reconciler_settings.NUDGE_AGAIN_SECONDS)
    for start in range(0, len(wanted), ROWS_PER_STATEMENT):
        chunk = wanted[start : start + ROWS_PER_STATEMENT]
        parameters: dict[str, Any] = dict(shared)
        for n, (name, key) in enumerate(chunk):
            parameters |= {f"reconciler{n}": name, f"key{n}": key, f"token{n}": new_token()}
        sql.execute(using, sql.enqueue(d, len(chunk), nudged=marked), parameters)
    if nudge and wanted:
        nudges.on_commit(wanted, using)


@contextmanager
def collect(using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Ask for the runs that the changes in this block call for at its end, all at once and in order.

    For a transaction that writes many rows: each request locks its item until the transaction ends, and two
    transactions that lock the same items in different orders deadlock. Put it inside the transaction::

        with transaction.atomic(), reconcilers.collect():
            ...

    Raises:
        TransactionManagementError: no transaction is open, so the requests could not commit with the changes.
    """
    connection = connections[using]
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "reconcilers.collect() needs an open transaction: with transaction.atomic(), reconcilers.collect(): ..."
        )
    collecting = _collected.get()
    if using in collecting:
        yield
        return
    keys: set[nudges.Key] = set()
    token = _collected.set({**collecting, using: keys})
    try:
        yield
    finally:
        _collected.reset(token)
        # After an error too: the caller may catch it and commit what was written.
        if keys and not connection.needs_rollback:
            request(keys, using=using)


_collected: ContextVar[Mapping[str, set[nudges.Key]]] = ContextVar("reconcilers_collected", default={})  # noqa: B039


def request_for_change(keys: Iterable[nudges.Key], *, using: str) -> None:
    """Ask for the runs that a change of a row calls for.

    A reconciler's own writes do not ask for its own key here: the run that makes them ends by asking once.
    """
    wanted = set(keys)
    run = current_run.get()
    if run is not None and (own := {key for key in wanted if run.is_of(*key, using)}):
        run.wrote = True
        wanted -= own
    if using in (collecting := _collected.get()):
        collecting[using].update(wanted)
    elif wanted:
        request(wanted, using=using)

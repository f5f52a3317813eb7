"""What a worker does to an item: claim it, then finish, release, back off, park or remove it.

Each is one guarded statement. Those that end a run are conditional on its lease: where another worker has taken the
key they write nothing and raise ``LeaseLost``, which rolls back whatever the run wrote in the same transaction.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connections, transaction

from reconcilers.exceptions import LeaseLost
from reconcilers.models import Cause
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import sql

ERROR_LENGTH = 10_000

_random = random.SystemRandom()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A lease on one key: who holds it may write, as long as nobody else was given it."""

    id: int
    reconciler: str
    key: str
    using: str
    request_token: int
    cause: Cause
    attempts: int
    lease_token: int

    @property
    def parameters(self) -> dict[str, Any]:
        """What the statements that end a run are conditional on."""
        return {"id": self.id, "lease_token": self.lease_token, "request_token": self.request_token}


def new_token() -> int:
    """Return a number that no other request has."""
    return _random.getrandbits(62)


def this_worker() -> str:
    """Return the name under which this thread holds leases."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{threading.get_native_id()}"


def claim(reconciler: Reconciler, key: str, *, using: str) -> Claim | None:
    """Take the lease of ``key`` if it is due and free, and count the attempt; None otherwise."""
    d = sql.dialect_of(connections[using])
    parameters = {**_claiming(reconciler, d), "key": key}
    if d.returning:
        rows = sql.fetch(using, sql.claim(d), parameters)
    else:
        rows = sql.fetch(using, sql.claimed(d), parameters) if sql.execute(using, sql.claim(d), parameters) else []
    return to_claim(reconciler, rows[0], using) if rows else None


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What there is to do for one reconciler: the causes for which something is due, and whether a lease ended."""

    reconciler: Reconciler
    causes: tuple[Cause, ...]
    expired: bool


def waiting(reconcilers: Sequence[Reconciler], *, using: str) -> list[Waiting]:
    """Return the reconcilers that have something to do, at the price of one read."""
    if not reconcilers:
        return []
    d = sql.dialect_of(connections[using])
    names = {f"reconciler{n}": reconciler.name for n, reconciler in enumerate(reconcilers)}
    (found,) = sql.fetch(using, sql.peek(d, len(reconcilers)), {**names, "now": d.seconds(0)})
    width = len(Cause) + 1
    return [
        Waiting(
            reconciler=reconciler,
            causes=tuple(cause for cause, due in zip(Cause, found[n * width :], strict=False) if due),
            expired=bool(found[n * width + len(Cause)]),
        )
        for n, reconciler in enumerate(reconcilers)
        if any(found[n * width : (n + 1) * width])
    ]


def claim_many(waiting: Waiting, *, using: str, limit: int) -> list[Claim]:
    """Take the leases of up to ``limit`` keys, those that wait for a change first, or of one whose worker died.

    That one is taken alone. It may be what its worker died of, and a batch that it is in dies with it: the others would
    be charged for it, time and again, until they are parked as it is.

    Where the database can, keys locked by others are passed over.
    """
    if waiting.expired and (taken := _claim_expired(waiting.reconciler, using=using)):
        return [taken]
    if waiting.reconciler.max_attempts == 1:
        limit = 1  # the same for want of a second attempt
    claims: list[Claim] = []
    for cause in waiting.causes:
        if len(claims) < limit:
            claims += _claim_due(waiting.reconciler, cause, using=using, limit=limit - len(claims))
    return claims


def _claim_expired(reconciler: Reconciler, *, using: str) -> Claim | None:
    d = sql.dialect_of(connections[using])
    parameters = {"reconciler": reconciler.name, "now": d.seconds(0), "nudged_since": d.seconds(0), "limit": 20}
    keys = (key for _, key, _ in sql.fetch(using, sql.expired(d), parameters))
    return next((taken for key in keys if (taken := claim(reconciler, key, using=using))), None)


def _claim_due(reconciler: Reconciler, cause: Cause, *, using: str, limit: int) -> list[Claim]:
    connection = connections[using]
    d = sql.dialect_of(connection)
    parameters = {**_claiming(reconciler, d), "cause": cause, "limit": limit}
    if d.returning:
        rows = sql.fetch(using, sql.claim_many(d), parameters)
        return [to_claim(reconciler, row, using) for row in rows]
    # Read without locks first: a locking read of a range would hold up whoever inserts into it.
    listed = sql.fetch(using, sql.due(d), {**parameters, "nudged_since": d.seconds(0)})
    if not listed:
        return []
    if not connection.features.has_select_for_update_skip_locked:
        taken = (claim(reconciler, key, using=using) for _, key, _ in listed)
        return [one for one in taken if one]
    with transaction.atomic(using=using):
        parameters["ids"] = [item for item, _, _ in listed]
        rows = sql.fetch(using, sql.lock_due(d), parameters)
        if rows:
            sql.execute(using, sql.claim_locked(d), {**parameters, "ids": [row[0] for row in rows]})
    claims = (to_claim(reconciler, row, using) for row in rows)
    return [replace(one, attempts=one.attempts + 1, lease_token=one.lease_token + 1) for one in claims]


def _claiming(reconciler: Reconciler, d: sql.Dialect) -> dict[str, Any]:
    return {
        "reconciler": reconciler.name,
        "owner": this_worker(),
        "now": d.seconds(0),
        "lease": d.seconds(reconciler.lease_seconds),
        "max_attempts": reconciler.max_attempts,
    }


def to_claim(reconciler: Reconciler, row: sql.Row, using: str) -> Claim:
    """Return the claim that a row of a claiming statement stands for."""
    item, key, request_token, cause, attempts, lease_token = row
    return Claim(
        id=item,
        reconciler=reconciler.name,
        key=key,
        using=using,
        request_token=request_token,
        cause=Cause(cause),
        attempts=attempts,
        lease_token=lease_token,
    )


def finish(claim: Claim, *, version: int | None, requeue_after: float | None, cause: Cause = Cause.CLOCK) -> bool:
    """End a run that succeeded, and return whether the key was asked for again while it ran.

    ``requeue_after`` is in seconds; None leaves it idle.

    Raises:
        LeaseLost: another worker has the key.
    """
    d = sql.dialect_of(connections[claim.using])
    parameters = {
        **claim.parameters,
        "now": d.seconds(0),
        "next": d.seconds(requeue_after or 0),
        "version": version,
        "new_token": new_token(),
        "cause": cause,
    }
    again = requeue_after is not None
    if sql.execute(claim.using, sql.finish(d, again=again, unchanged=True), parameters):
        return False
    if sql.execute(claim.using, sql.finish(d, again=again, unchanged=False), parameters):
        return True
    raise LeaseLost(claim.reconciler, claim.key)


def back_off(claim: Claim, *, delay: float, error: str) -> None:
    """End a run that failed: due again, and not before, ``delay`` seconds from now. Raises ``LeaseLost``."""
    d = sql.dialect_of(connections[claim.using])
    parameters = {**claim.parameters, "next": d.seconds(delay), "error": _stored(error)}
    if not sql.execute(claim.using, sql.back_off(d), parameters):
        raise LeaseLost(claim.reconciler, claim.key)


def park(claim: Claim, *, delay: float, error: str) -> bool:
    """End a run that shall not be repeated, and return True.

    If the key was asked for again meanwhile it is not parked, but due after ``delay`` seconds, and this returns
    False. Raises ``LeaseLost``.
    """
    d = sql.dialect_of(connections[claim.using])
    parameters = {**claim.parameters, "now": d.seconds(0), "next": d.seconds(delay), "error": _stored(error)}
    if sql.execute(claim.using, sql.park(d), parameters):
        return True
    back_off(claim, delay=delay, error=error)
    return False


def release(claim: Claim) -> None:
    """Give a lease back unused: the key is due now, and the attempt is not counted. A lost lease is left alone."""
    d = sql.dialect_of(connections[claim.using])
    sql.execute(claim.using, sql.release(d), {**claim.parameters, "now": d.seconds(0)})


def remove(claim: Claim) -> bool:
    """Delete the item of a row that is gone, and return True.

    If the key was asked for again meanwhile (the row may be back) it is released instead, and this returns False.
    Raises ``LeaseLost``.
    """
    d = sql.dialect_of(connections[claim.using])
    if sql.execute(claim.using, sql.remove(d), claim.parameters):
        return True
    finish(claim, version=None, requeue_after=None)
    return False


def extend(claim: Claim, *, lease: float) -> None:
    """Start the lease anew, to last ``lease`` seconds from now. Raises ``LeaseLost``."""
    d = sql.dialect_of(connections[claim.using])
    if not sql.execute(claim.using, sql.extend(d), {**claim.parameters, "lease": d.seconds(lease)}):
        raise LeaseLost(claim.reconciler, claim.key)


def _stored(error: str) -> str:
    # PostgreSQL refuses NUL in text, and no database takes lone surrogates (file names that are not UTF-8).
    error = error.encode("utf-8", "backslashreplace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return error if len(error) <= ERROR_LENGTH else f"{error[:ERROR_LENGTH]} [cut at {ERROR_LENGTH} characters]"

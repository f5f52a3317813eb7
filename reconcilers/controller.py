"""One turn for one key: claim it, read the row, reconcile, then write and finish in one transaction.

Called by the Celery task, by ``runreconcilers`` and by ``reconcile``. The row's guard (its version) refuses a write
of what changed meanwhile; the lease refuses a write of a worker that was taken for dead.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.db import DatabaseError, Error, connections, router, transaction

from occ.attribution import field_manager, running_reconciler
from occ.backoff import Backoff
from occ.exceptions import Conflict
from occ.fields import get_version
from occ.logs import one_line
from occ.ownership.apply import apply_changes
from occ.retry import is_retryable
from occ.snapshots import Snapshot, save_changes
from reconcilers import registry, signals
from reconcilers.exceptions import LeaseLost, TerminalError
from reconcilers.models import Cause
from reconcilers.reconciler import Reconciler, Run, current_run
from reconcilers.result import Result
from reconcilers.surroundings import left_as_found
from reconcilers.workqueue import nudges, steps

logger = logging.getLogger("reconcilers")

# Between attempts on a row that somebody else is writing: the length of a write or two.
IN_PLACE = Backoff(base=0.005, factor=2.0, cap=0.05, jitter="full", attempts=None)

# A resync is spread by this share, so that what was created together is not resynced together for ever.
RESYNC_SPREAD = 0.1


class Outcome(enum.StrEnum):
    """How a turn ended."""

    DONE = "done"
    GONE = "gone"
    CONFLICT = "conflict"
    FAILED = "failed"
    PARKED = "parked"
    LEASE_LOST = "lease_lost"
    NOT_DUE = "not_due"


def turn(
    reconciler: str | type[Reconciler] | Reconciler,
    key: Any,
    *,
    using: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Run ``reconciler`` on ``key`` if that is due and no other worker has it, and tell how it ended.

    A run that raises does not raise here: it is logged and the item is due again later, or parked.

    Args:
        reconciler: the class, the instance or the name.
        key: the primary key, or its text.
        using: the alias of the database; by default the one that the model is written to.
        sleep: waits between in-place attempts, in seconds.

    Raises:
        UnknownReconciler, InvalidKey: nothing was claimed.
    """
    known = registry.get(reconciler)
    alias = using or router.db_for_write(known.model)
    text = known.key_for(key)
    try:
        claim = steps.claim(known, text, using=alias)
    except DatabaseError as error:
        if not is_retryable(error, alias):
            raise
        logger.info("%s %s was not claimed, somebody is writing its item: %s", known.name, one_line(text), error)
        return Outcome.NOT_DUE
    return Outcome.NOT_DUE if claim is None else run(known, claim, sleep=sleep)


def run(reconciler: Reconciler, claim: steps.Claim, *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Do the work of a claim and give its lease back, whatever happens."""
    started = time.perf_counter()
    error: BaseException | None = None
    try:
        outcome = _attempts(reconciler, claim, sleep)
    except LeaseLost as lost:
        outcome, error = Outcome.LEASE_LOST, lost
        logger.warning("%s", lost)
    except (Exception, asyncio.CancelledError) as raised:  # a task that was cancelled is nobody's wish to stop
        error = raised
        outcome = _after_error(reconciler, claim, raised)
    except BaseException as raised:
        # Charged, since it may be the row that makes it exit: that must not go on for ever. A worker that is told to
        # stop in mid-run loses one of many attempts.
        _after_error(reconciler, claim, raised)
        raise
    _announce(reconciler, claim, outcome, time.perf_counter() - started, error)
    return outcome


def _attempts(reconciler: Reconciler, claim: steps.Claim, sleep: Callable[[float], None]) -> Outcome:
    retry = 0
    while True:
        try:
            return _attempt(reconciler, claim)
        except Exception as error:
            if not is_retryable(error, claim.using) or retry >= reconciler.conflict_retries:
                raise
            logger.info("%s %s met a conflict, reads again: %s", *_named(claim), error)
        sleep(IN_PLACE.delay(retry))
        retry += 1


def _attempt(reconciler: Reconciler, claim: steps.Claim) -> Outcome:
    """Read, reconcile, write and finish, once."""
    this = Run(
        reconciler=reconciler,
        key=claim.key,
        using=claim.using,
        extend=lambda: steps.extend(claim, lease=reconciler.lease_seconds),
    )
    token, named = current_run.set(this), running_reconciler.set(reconciler.name)
    try:
        if reconciler.atomic:
            with transaction.atomic(using=claim.using):
                return _read_and_reconcile(reconciler, claim, this)
        return _read_and_reconcile(reconciler, claim, this)
    except Conflict as conflict:
        if reconciler.atomic and this.wrote and _is_about(conflict, reconciler, claim.key):
            conflict.add_note(WROTE_ITSELF)
        raise
    finally:
        running_reconciler.reset(named)
        current_run.reset(token)


WROTE_ITSELF = (
    "reconcile itself wrote this row past the object that it was given. Change that object; it is written for you."
)


def _is_about(conflict: Conflict, reconciler: Reconciler, key: str) -> bool:
    return issubclass(conflict.model, reconciler.model) and reconciler.key_for(conflict.pk) == key


def _read_and_reconcile(reconciler: Reconciler, claim: steps.Claim, this: Run) -> Outcome:
    # Without first(), whose ordering costs as much as the rest of the read.
    rows = reconciler.model._base_manager.using(claim.using).filter(pk=reconciler.pk_for(claim.key)).order_by()
    obj = next(iter(rows), None)
    if obj is None:
        return _clean_up(reconciler, claim)
    snapshot = Snapshot.take(obj, claim.using)
    with (
        field_manager(reconciler.field_manager) if reconciler.field_manager else nullcontext(),
        left_as_found(f"{reconciler.name}.reconcile"),
    ):
        result = reconciler.reconcile(obj)
    if result is not None and not isinstance(result, Result):
        raise TypeError(f"{reconciler.name}.reconcile must return None or a reconcilers.Result, not {result!r}.")
    version = get_version(obj)
    # An atomic reconciler has its transaction already.
    with transaction.atomic(using=claim.using, savepoint=not reconciler.atomic):
        if obj.pk is None:
            if not this.wrote:
                raise ValueError(f"{reconciler.name}.reconcile took the primary key of a row that it did not delete.")
            # It deleted its own row: the next run cleans up.
        elif _write_changes(reconciler, obj, snapshot):
            this.wrote = True
            # Where others wrote their fields since it was read, the version that was reconciled is still the one read.
            version = get_version(obj) if get_version(obj) == version + 1 or not reconciler.field_manager else version
        _finish(reconciler, claim, version, result or Result(), wrote=this.wrote)
    return Outcome.DONE


def _write_changes(reconciler: Reconciler, obj: Any, snapshot: Snapshot) -> bool:
    """Write what changed on ``obj``; return whether that was anything."""
    if not reconciler.field_manager:
        return save_changes(obj, snapshot)
    return apply_changes(obj, snapshot, manager=reconciler.field_manager, force=reconciler.force_fields)


def _clean_up(reconciler: Reconciler, claim: steps.Claim) -> Outcome:
    with left_as_found(f"{reconciler.name}.gone"):
        reconciler.gone(claim.key)
    with transaction.atomic(using=claim.using, savepoint=not reconciler.atomic):
        if not steps.remove(claim):
            nudges.on_commit([(claim.reconciler, claim.key)], claim.using)
    return Outcome.GONE


def _finish(reconciler: Reconciler, claim: steps.Claim, version: int, result: Result, *, wrote: bool) -> None:
    after, cause = result.requeue_seconds, Cause.CLOCK
    if after is not None:
        cause = Cause.CHANGE
    elif wrote and claim.cause is not Cause.OWN_WRITE:
        # Its own write asks for it once more, which should change nothing. It does so once: a reconciler that never
        # comes to rest would otherwise never stop.
        after, cause = 0.0, Cause.OWN_WRITE
    elif wrote:
        logger.warning(
            "%s %s wrote again in the run that its own write asked for. Make it come to rest, or return "
            "Result(requeue_after=...) where another step is to follow.",
            *_named(claim),
        )
    if reconciler.resync is not None:
        resync = reconciler.resync.total_seconds()
        resync *= 1 + reconciler.backoff.random.uniform(-RESYNC_SPREAD, RESYNC_SPREAD)
        after = resync if after is None else min(after, resync)
    changed = steps.finish(claim, version=version, requeue_after=after, cause=cause)
    if changed or after == 0:
        nudges.on_commit([(claim.reconciler, claim.key)], claim.using)


def _after_error(reconciler: Reconciler, claim: steps.Claim, error: BaseException) -> Outcome:
    """Note what went wrong: due after the backoff, or parked."""
    delay = reconciler.backoff.delay(claim.attempts - 1)
    conflict = is_retryable(error, claim.using)
    parked = isinstance(error, TerminalError) or claim.attempts >= reconciler.max_attempts
    described = _described(error)
    connection = connections[claim.using]
    if isinstance(error, Error) and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()  # the server may have gone; what follows opens another
    try:
        if parked:
            parked = steps.park(claim, delay=delay, error=described)
        else:
            steps.back_off(claim, delay=delay, error=described)
    except LeaseLost as lost:
        logger.warning("%s %s failed, and %s", *_named(claim), lost, exc_info=error)
        return Outcome.LEASE_LOST
    except Error:
        # The database is away; the lease ends by itself.
        logger.exception("%s %s failed, and so did noting it; it runs again when its lease ends.", *_named(claim))
        return Outcome.FAILED
    if isinstance(error, TerminalError):
        logger.warning("%s %s was given up: %s", *_named(claim), error)
    elif parked:
        logger.error("%s %s parked after %d attempts.", *_named(claim), claim.attempts, exc_info=error)
    elif conflict and WROTE_ITSELF not in getattr(error, "__notes__", ()):
        logger.info("%s %s met conflicts only, runs again in %.1f s: %s", *_named(claim), delay, described)
    else:
        logger.error("%s %s failed, runs again in %.1f s.", *_named(claim), delay, exc_info=error)
    if parked:
        return Outcome.PARKED
    return Outcome.CONFLICT if conflict else Outcome.FAILED


def _described(error: BaseException) -> str:
    try:
        return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    except BaseException:  # an exception that cannot even be printed
        return type(error).__name__


def _named(claim: steps.Claim) -> tuple[str, str]:
    return claim.reconciler, one_line(claim.key)


def _announce(
    reconciler: Reconciler, claim: steps.Claim, outcome: Outcome, duration: float, error: BaseException | None
) -> None:
    if not signals.reconcile_finished.has_listeners(type(reconciler)):
        return
    for receiver, response in signals.reconcile_finished.send_robust(
        sender=type(reconciler),
        reconciler=claim.reconciler,
        key=claim.key,
        using=claim.using,
        outcome=outcome,
        attempts=claim.attempts,
        duration=duration,
        error=error,
    ):
        if isinstance(response, Exception):
            logger.error("%r failed on reconcile_finished.", receiver, exc_info=response)

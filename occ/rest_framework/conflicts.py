"""From a conflict to the refusal that the client gets, whoever found it: the check of the tag, or the write."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.db import DatabaseError
from rest_framework import status

from occ.exceptions import Conflict
from occ.fields import get_version
from occ.logs import one_line
from occ.preconditions import Precondition
from occ.rest_framework.exceptions import StaleVersion
from occ.rest_framework.rows import database_of
from occ.retry import is_retryable
from occ.signals import conflict_detected

if TYPE_CHECKING:
    from django.db import models

logger = logging.getLogger("occ")


def refuse_stale(
    instance: models.Model, precondition: Precondition, operation: str, *, status_code: int
) -> StaleVersion:
    """Return the refusal of a write whose precondition names another version than that of ``instance``.

    It is reported as the conflict that it is, like one that only the write itself meets.
    """
    conflict = stale_conflict(instance, precondition, operation)
    report(conflict)
    return StaleVersion.of_conflict(conflict, status_code=status_code)


def report(conflict: Conflict) -> None:
    """Log a conflict and tell the receivers of ``conflict_detected``, as the guarded write does."""
    logger.info(
        "Conflict: %s of %s %s expected version %s, found %s",
        conflict.operation,
        conflict.model._meta.label,
        one_line(conflict.pk),
        conflict.expected,
        conflict.actual,
    )
    conflict_detected.send(sender=conflict.model, conflict=conflict)


def stale_conflict(instance: models.Model, precondition: Precondition, operation: str) -> Conflict:
    """Return the conflict between what the client expects and what ``instance`` is."""
    return Conflict(
        model=type(instance),
        pk=instance.pk,
        expected=precondition.expected_version,
        actual=get_version(instance),
        operation=operation,
        using=database_of(instance),
        instance=instance,
    )


def as_refusal(error: BaseException, using: str | None) -> StaleVersion | None:
    """Return the 409 that ``error``, raised by a write, stands for, or None when it stands for none.

    ``using`` is the alias of the database that was written: each says in its own way that another writer was in the
    way.
    """
    if isinstance(error, Conflict):
        return StaleVersion.of_conflict(error, status_code=status.HTTP_409_CONFLICT)
    if using is not None and isinstance(error, DatabaseError) and is_retryable(error, using):
        return StaleVersion.unknown()
    return None

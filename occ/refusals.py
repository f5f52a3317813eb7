"""How a guarded write is refused: the ``Conflict``, its line in the log and its signal."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from django.db import connections, models

from occ.exceptions import BulkConflict, Conflict
from occ.fields import VersionField, read_version
from occ.journal import Reading
from occ.keys import changed_key
from occ.logs import one_line
from occ.signals import conflict_detected

logger = logging.getLogger("occ")


def refuse(
    instance: models.Model,
    operation: str,
    pk: Any,
    version: int,
    actual: int | None,
    using: str,
    *,
    message: str | None = None,
    first: bool = True,
) -> NoReturn:
    """Raise that the row ``pk`` of ``instance`` is at ``actual``; ``first``: no row was written before this one."""
    conflict = Conflict(
        message,
        model=type(instance),
        pk=pk,
        expected=version,
        actual=actual,
        operation=operation,
        using=using,
        instance=instance,
    )
    _raise(conflict, first=first)


def refuse_changed_key(instance: models.Model, operation: str, version: int, using: str) -> None:
    """Raise if the primary key of ``instance`` is no longer that of the row that was read.

    Its version would be compared with another row's, and rows that are written alike often have the same.
    """
    changed = changed_key(instance)
    if changed is None:
        return
    loaded_pk, pk = changed
    message = (
        f"{operation} of {instance._meta.label} {loaded_pk!r} refused: its primary key was changed to {pk!r} "
        "after it was loaded. To copy the object, set pk = None and _state.adding = True and save; to move a row, "
        "use QuerySet.update(); to write or delete another row, read that one."
    )
    conflict = Conflict(
        message,
        model=type(instance),
        pk=loaded_pk,
        expected=version,
        actual=None,
        reason="changed",
        operation=operation,
        using=using,
        instance=instance,
    )
    conflict.may_be_retried = False
    _raise(conflict, first=True)


def shows_undone(instance: models.Model) -> bool:
    """Tell whether ``instance`` was read after a write of its row that has been rolled back since."""
    reading: Reading | None = instance._state.__dict__.get("occ_reading")
    root = _version_field(instance).model
    return reading is not None and reading.shows_undone(root, instance._get_pk_val(root._meta))


def undone_message(instance: models.Model, operation: str) -> str:
    return (
        f"{operation} of {instance._meta.label} {instance.pk!r} refused: it was read in a transaction, after a write "
        "of the row that has been rolled back, and shows what never was. Read it again and apply the change to the "
        "fresh copy (Model.objects.mutate does both)."
    )


def refuse_undone(instance: models.Model, operation: str, version: int, using: str) -> None:
    """Raise if ``instance`` shows a write that was rolled back: a rival may have reached the same version."""
    if instance._state.db != using or not shows_undone(instance):
        return
    field = _version_field(instance)
    pk = instance._get_pk_val(field.model._meta)
    actual = read_version(field.model, field, pk, using)
    refuse(instance, operation, pk, version, actual, using, message=undone_message(instance, operation))


def announce(conflict: Conflict) -> None:
    """Log the conflict and send its signal."""
    stale = conflict.conflicts if isinstance(conflict, BulkConflict) else (conflict,)
    logger.info(
        "Conflict: %s of %s %s read at version %s, found %s%s",
        conflict.operation,
        conflict.model._meta.label,
        one_line(conflict.pk),
        conflict.expected,
        conflict.actual,
        f", and {len(stale) - 1} more" if len(stale) > 1 else "",
    )
    conflict_detected.send(sender=conflict.model, conflict=conflict)


def leave_usable(conflict: Conflict, instance: models.Model) -> None:
    """Take back Django's rollback mark when the refused statement was the first of its operation: nothing failed."""
    if conflict.leaves_transaction_usable and conflict.instance is instance:
        connections[conflict.using].needs_rollback = False


def _raise(conflict: Conflict, *, first: bool) -> NoReturn:
    connection = connections[conflict.using]
    conflict.leaves_transaction_usable = first and connection.in_atomic_block and not connection.needs_rollback
    announce(conflict)
    raise conflict


def _version_field(instance: models.Model) -> VersionField:
    field: VersionField = instance._occ_version_field  # type: ignore[attr-defined]
    return field

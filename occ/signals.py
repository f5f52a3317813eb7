"""Signals that occ sends.

``conflict_detected(sender=model, conflict=Conflict)``
    A write was refused. Sent before the exception is raised, inside the transaction of the refused write if there
    is one. A receiver that raises replaces the ``Conflict``; keep it small. A ``BulkConflict`` is sent once.

``rows_written(sender=model, using=alias, pks=list | None, operation=str)``
    A queryset wrote rows (``update``, ``bulk_update``, ``bulk_create``) and no ``post_save`` tells of it. Sent inside
    the transaction of the write. ``pks`` is None when there were more than ``ROWS_WRITTEN_LIMIT``, and where the
    database does not tell the keys of what was inserted.

``write_observers`` is no signal but a list of functions, called as ``observe(model, rows)`` after each guarded write
that was accepted: a Signal costs several calls of every save, even while nobody listens. An observer must be fast,
must not write and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

if TYPE_CHECKING:
    from django.db.models import Model

conflict_detected = Signal()
rows_written = Signal()
write_observers: list[Callable[[type[Model], int], None]] = []

# Above this many rows their keys are not collected: a scan finds them cheaper than a list in memory would.
ROWS_WRITTEN_LIMIT = 1000


def send_rows_written(model: type[Model], using: str, pks: Sequence[Any] | None, operation: str) -> None:
    """Send ``rows_written``, without the keys when there are too many to list."""
    listed = list(pks) if pks is not None and len(pks) <= ROWS_WRITTEN_LIMIT else None
    rows_written.send(sender=model, using=using, pks=listed, operation=operation)

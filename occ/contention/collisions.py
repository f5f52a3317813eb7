"""Which fields collide: a sample of the refused writes is compared with the row that refused them.

Costs one read of that row, in the transaction of the refused write, at most ``OCC["CONFLICT_SAMPLES"]`` times per
model, process and flush. Later would not do: on a hot row everything has changed a moment later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, connections

from occ.conf import occ_settings
from occ.contention.models import FIELDS_LENGTH
from occ.diffs import compare
from occ.exceptions import BulkConflict, Conflict
from occ.snapshots import UNKNOWN as NOT_READ

logger = logging.getLogger("occ")

UNKNOWN = "?"


@dataclass(frozen=True, kw_only=True, order=True)
class Collided:
    """What one writer wanted to change and what others had changed, as field names joined by commas."""

    model: str
    writer: str
    mine: str
    theirs: str


def samples_per_flush() -> int:
    """Return how many conflicts of a model may be looked into between two flushes."""
    return occ_settings.CONFLICT_SAMPLES


def can_be_looked_into(conflict: Conflict) -> bool:
    """Tell whether there is a row and a stale object to compare."""
    return (
        conflict.instance is not None
        and conflict.instance.pk == conflict.pk
        and conflict.reason == "changed"
        and not isinstance(conflict, BulkConflict)
        and not connections[conflict.using].needs_rollback
    )


def look_into(conflict: Conflict, writer: str) -> Collided | None:
    """Read the row and compare; None when it is gone meanwhile."""
    try:
        return _collided(conflict, writer)
    except ObjectDoesNotExist:
        return None
    except Exception as error:  # whatever the values' own types raise: the writer shall get its Conflict
        connection = connections[conflict.using]
        if isinstance(error, DatabaseError) and connection.in_atomic_block:
            conflict.leaves_transaction_usable = False
            connection.needs_rollback = True
        logger.warning("The row of a conflict could not be looked at to see what collided.", exc_info=True)
        return None


def _collided(conflict: Conflict, writer: str) -> Collided:
    diffs = [diff for diff in compare(conflict) if diff.name != "managed_fields"]
    if any(diff.base is NOT_READ for diff in diffs):
        mine, theirs = _joined(diff.name for diff in diffs), UNKNOWN
    else:
        mine = _joined(diff.name for diff in diffs if diff.changed_by_me)
        theirs = _joined(diff.name for diff in diffs if diff.changed_by_them)
    return Collided(model=conflict.model._meta.label, writer=writer, mine=mine, theirs=theirs)


def _joined(names: Iterable[str]) -> str:
    text = ",".join(sorted(names))
    return text if len(text) <= FIELDS_LENGTH else text[: FIELDS_LENGTH - 1].rpartition(",")[0]

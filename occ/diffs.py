"""What changed on both sides of a conflict: base, theirs, mine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, models

from occ.exceptions import BulkConflict, Conflict
from occ.snapshots import UNKNOWN, Snapshot, stored_fields


@dataclass(frozen=True, kw_only=True)
class FieldDiff:
    """One field of a conflict.

    Attributes:
        name: the field's name.
        base: the value that the writer had read, or ``UNKNOWN``; then each side counts as one that changed it.
        theirs: the value in the row now.
        mine: the value that the writer wanted to write.
    """

    name: str
    base: Any
    theirs: Any
    mine: Any

    @property
    def changed_by_them(self) -> bool:
        """Whether the row no longer has the value that was read."""
        return bool(self.base != self.theirs)

    @property
    def changed_by_me(self) -> bool:
        """Whether the writer wanted another value than the one that was read."""
        return bool(self.base != self.mine)

    @property
    def clashes(self) -> bool:
        """Whether both changed it, and not to the same value: somebody has to choose."""
        return self.changed_by_them and self.changed_by_me and bool(self.theirs != self.mine)


def remember(instance: models.Model) -> None:
    """Keep the values of ``instance``, which must be as its row is, as the base of a later comparison.

    For objects that are changed and saved by hand: loading does not keep them, since that would cost memory for every
    object. What ``mutate`` gives to its function is remembered already. Saves move the memory along.
    """
    Snapshot.take(instance, instance._state.db or DEFAULT_DB_ALIAS)


def compare(conflict: Conflict) -> list[FieldDiff]:
    """Return what differs between the stale object of ``conflict``, its row as it is now, and what was read.

    One fresh read; the object stays as it is. Left out are fields that neither side changed, the key, the version,
    ``auto_now`` fields, fields that were deferred and ``occ_unguarded_fields``. The values of a relation are keys.

    Raises:
        ValueError: the conflict has no object (it was pickled), or is one of many rows: take each of ``conflicts``.
        DoesNotExist: the row is gone (``conflict.reason`` is ``"deleted"``).
    """
    instance = _stale_object(conflict)
    return _differences(_base(instance), _values(instance), _values(_row(conflict).get(pk=instance.pk)))


def refresh(conflict: Conflict, *, keep_mine: bool = False) -> list[FieldDiff]:
    """Bring the stale object of ``conflict`` to its row as it is now, version included, and return what differed.

    One fresh read, so that a save that follows is refused if the row moves once more. Fields as in ``compare``.

    Args:
        keep_mine: put back what was changed on the object where nobody else changed it. Where both did (``clashes``)
            the row's value stays, and the caller has to decide.

    Raises:
        ValueError, DoesNotExist: as ``compare`` does; the object is as it was.
    """
    instance = _stale_object(conflict)
    mine = _values(instance)
    base = _base(instance)
    instance.refresh_from_db(using=conflict.using, from_queryset=_row(conflict))
    diffs = _differences(base, mine, _values(instance))
    Snapshot.take(instance, conflict.using)
    for diff in diffs if keep_mine else ():
        if diff.changed_by_me and not diff.clashes:
            setattr(instance, instance._meta.get_field(diff.name).attname, diff.mine)  # type: ignore[union-attr]
    return diffs


def _stale_object(conflict: Conflict) -> models.Model:
    if isinstance(conflict, BulkConflict):
        raise ValueError("A BulkConflict is about several rows: take each of its conflicts.")
    if conflict.instance is None:
        raise ValueError("The conflict has no object to compare (pickling drops it): read the row instead.")
    if conflict.instance.pk != conflict.pk:
        raise ValueError(f"The object is no longer {conflict.model._meta.label} {conflict.pk!r}: its key was changed.")
    return conflict.instance


def _row(conflict: Conflict) -> models.QuerySet[models.Model]:
    """Return the queryset that reads what the refused statement met, not an older snapshot of it."""
    rows = conflict.model._base_manager.using(conflict.using)
    connection = connections[conflict.using]
    return rows.select_for_update() if connection.vendor == "mysql" and connection.in_atomic_block else rows


def _base(instance: models.Model) -> dict[str, Any]:
    snapshot = Snapshot.of(instance)
    return {
        field.name: UNKNOWN if snapshot is None else _as_loaded(field, snapshot.value(field))
        for field in _edited_fields(instance)
    }


def _values(instance: models.Model) -> dict[str, Any]:
    return {field.name: _as_loaded(field, instance.__dict__[field.attname]) for field in _edited_fields(instance)}


def _differences(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> list[FieldDiff]:
    diffs = [
        FieldDiff(name=name, base=base[name], theirs=theirs[name], mine=value)
        for name, value in mine.items()
        if name in theirs
    ]
    return [
        diff
        for diff in diffs
        if (diff.theirs != diff.mine if diff.base is UNKNOWN else diff.changed_by_them or diff.changed_by_me)
    ]


def _as_loaded(field: models.Field[Any, Any], value: Any) -> Any:
    """Return ``value`` as it would be loaded, so that "5" and 5 do not differ."""
    try:
        return field.to_python(value)
    except (TypeError, ValueError, ValidationError):
        return value


def _edited_fields(instance: models.Model) -> list[models.Field[Any, Any]]:
    """Return the fields of an object that a person or program chose the values of."""
    unguarded = getattr(instance, "occ_unguarded_fields", ())
    return [
        field
        for field in stored_fields(instance)
        if not getattr(field, "auto_now", False) and field.name not in unguarded and field.attname not in unguarded
    ]

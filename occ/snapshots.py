"""Snapshot: what an object was when it was read, to tell what has changed on it since."""

from __future__ import annotations

import copy
import datetime
import decimal
import functools
import json
import uuid
from collections.abc import Collection
from typing import Any

from django.db import connections, models

from occ.keys import changed_key

_IMMUTABLE = (str, int, float, bytes, bool, type(None), decimal.Decimal, datetime.date, datetime.time, uuid.UUID)
_PLAIN = frozenset({*_IMMUTABLE, datetime.datetime, datetime.timedelta})
# By Django's own fields; those of others may well store two texts as one.
_STORED_AS_THEY_ARE = (int, str, bool)
_SNAPSHOT = "occ_snapshot"
_SORTED = json.JSONEncoder(sort_keys=True).encode  # json.dumps would make an encoder each time


class _Unknown:
    """The type of ``UNKNOWN``, a value that nobody remembered. It equals nothing but itself."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


class Snapshot:
    """The values of an object as they stand in its row.

    Taken before anybody touches the object. Values are compared in the form that would be stored, so that a change
    inside a JSON value counts and a date given as text does not. A guarded save moves the snapshot along, so that
    what was saved by hand is not written twice.
    """

    def __init__(self, instance: models.Model, using: str) -> None:
        self.using = using  # not the connection: objects are pickled and copied with their snapshot
        # By attname: a plain value as it was loaded, anything else in the form that is stored. Preparing every value
        # for the database, two times a request, would cost a tenth of it.
        self._values: dict[str, Any] = {}
        self.take_again(instance)

    @classmethod
    def take(cls, instance: models.Model, using: str) -> Snapshot:
        """Remember the loaded values of ``instance``, which must be as its row is."""
        snapshot = cls(instance, using)
        setattr(instance._state, _SNAPSHOT, snapshot)
        return snapshot

    @staticmethod
    def of(instance: models.Model) -> Snapshot | None:
        """Return the snapshot that was taken of ``instance``, if one was."""
        snapshot: Snapshot | None = getattr(instance._state, _SNAPSHOT, None)
        return snapshot

    @classmethod
    def of_nothing(cls, using: str) -> Snapshot:
        """Return one that remembers no value, so that every field counts as changed."""
        snapshot = cls.__new__(cls)
        snapshot.using, snapshot._values = using, {}
        return snapshot

    def take_again(self, instance: models.Model, fields: set[str] | None = None) -> None:
        """Remember the values anew, all or those of the fields named."""
        loaded = instance.__dict__
        for attname, field in _columns(type(instance)).items():
            if attname in loaded and (fields is None or field.name in fields or attname in fields):
                value = loaded[attname]
                if type(value) not in _PLAIN:
                    value = _Stored(stored_form(field, getattr(instance, attname), self.using))
                self._values[attname] = value

    def following(self, instance: models.Model, fields: set[str] | None) -> Snapshot:
        """Return a copy that remembers the values of the fields named anew."""
        after = copy.copy(self)
        after._values = dict(self._values)
        after.take_again(instance, fields)
        return after

    def value(self, field: models.Field[Any, Any]) -> Any:
        """Return the remembered value of a field, UNKNOWN if there is none."""
        value = self._values.get(field.attname, UNKNOWN)
        if type(value) is not _Stored:
            return value
        return json.loads(value.form, cls=field.decoder) if isinstance(field, models.JSONField) else value.form

    def changed(self, instance: models.Model) -> list[str]:
        """Return the names of the fields whose value is no longer the one remembered."""
        return [field.name for field in stored_fields(instance) if self._is_changed(field, instance)]

    def is_changed(self, instance: models.Model) -> bool:
        """Tell whether any value is no longer the one remembered."""
        values, loaded = self._values, instance.__dict__
        return any(
            # A plain value that nobody assigned is the very same object.
            attname in loaded
            and loaded[attname] is not values.get(attname, UNKNOWN)
            and self._is_changed(field, instance)
            for attname, field in _columns(type(instance)).items()
        )

    def _is_changed(self, field: models.Field[Any, Any], instance: models.Model) -> bool:
        try:
            before = self._values[field.attname]
        except KeyError:
            return True
        value = instance.__dict__[field.attname]
        if type(value) is type(before) and type(value) in _PLAIN:
            if value == before:
                return False
            if type(value) in _STORED_AS_THEY_ARE and type(field).__module__ == "django.db.models.fields":
                return True
        form = before.form if type(before) is _Stored else stored_form(field, before, self.using)
        return bool(form != stored_form(field, getattr(instance, field.attname), self.using))


class _Stored:
    """Marks a value in the form that is stored."""

    def __init__(self, form: Any) -> None:
        self.form = form


def follow_save(instance: models.Model, update_fields: frozenset[str] | set[str] | None) -> None:
    """Move the snapshot of ``instance`` along after its row was written. Called by the guarded save."""
    snapshot = Snapshot.of(instance)
    if snapshot is not None and instance._state.db == snapshot.using:  # a copy of the row elsewhere is not the row
        # Anew, not in place: copies of the object share it, and a rollback must find the old one.
        after = snapshot.following(instance, None if update_fields is None else set(update_fields))
        setattr(instance._state, _SNAPSHOT, after)


def skip_unchanged(instance: models.Model, using: str) -> None:
    """Let the next save of ``instance``, which must be as its row is, write only if a column has changed by then.

    For layers that do not call save themselves. The save methods of the model and others run as ever.
    """
    Snapshot.take(instance, using)
    instance._state.occ_skip_unchanged = True  # type: ignore[attr-defined]


def end_skipping(instance: models.Model) -> None:
    """Let saves of ``instance`` always write again, as Django's do."""
    instance._state.__dict__.pop("occ_skip_unchanged", None)
    instance._state.__dict__.pop(_SNAPSHOT, None)


def may_be_skipped(instance: models.Model, update_fields: Collection[str] | None) -> bool:
    """Tell whether a save of ``instance`` would leave its row as it is; if not, this save and later ones write.

    A save that names the version (``touch()``) wants to move just that.
    """
    state = instance._state.__dict__
    version = getattr(instance, "_occ_version_field", None)
    named = update_fields is not None and version is not None and version.name in update_fields
    if named and (len(update_fields) == 1 or not instance._is_all_that_is_loaded(update_fields)):  # type: ignore
        end_skipping(instance)
        return False
    snapshot: Snapshot | None = state.get(_SNAPSHOT)
    same_row = not instance._state.adding and changed_key(instance) is None
    if snapshot is not None and same_row and not snapshot.is_changed(instance):
        return True
    end_skipping(instance)
    return False


def save_changes(instance: models.Model, snapshot: Snapshot) -> bool:
    """Write what changed on ``instance`` since ``snapshot``, and ``auto_now`` fields with it, in one guarded UPDATE.

    Returns whether anything was written: nothing changed, nothing is.

    Raises:
        Conflict: the row moved meanwhile.
    """
    snapshot = Snapshot.of(instance) or snapshot  # a save by hand has moved it along
    changed = snapshot.changed(instance)
    if not changed:
        return False
    automatic = [f.name for f in instance._meta.concrete_fields if getattr(f, "auto_now", False)]
    instance.save(using=snapshot.using, update_fields={*changed, *automatic})
    return True


def stored_fields(instance: models.Model) -> list[models.Field[Any, Any]]:
    """Return the fields of ``instance`` that are loaded and that a save writes, without key, version and owners."""
    loaded = instance.__dict__
    return [field for attname, field in _columns(type(instance)).items() if attname in loaded]


@functools.cache
def _columns(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    ours = getattr(model, "_occ_version_field", None), getattr(model, "_occ_managed_fields", None)
    return {
        field.attname: field
        for field in model._meta.concrete_fields
        if not (field.primary_key or field.generated or any(field is one for one in ours))
    }


def stored_form(field: models.Field[Any, Any], value: Any, using: str) -> Any:
    """Return ``value`` in the form that is stored, which compares by content."""
    if isinstance(field, models.JSONField) and not hasattr(value, "resolve_expression"):
        # The order of keys is none of a JSON object's content: PostgreSQL and MySQL do not even keep it.
        try:
            return _SORTED(value) if field.encoder is None else json.dumps(value, cls=field.encoder, sort_keys=True)
        except TypeError:  # keys of several types, which become text
            return json.dumps(json.loads(json.dumps(value, cls=field.encoder)), sort_keys=True)
    if isinstance(value, bytes | bytearray | memoryview):  # what drivers wrap them in compares by identity
        return bytes(value)
    return _frozen(field.get_db_prep_save(value, connections[using]))


def _frozen(value: Any) -> Any:
    """Return ``value`` in a form that later changes of the object cannot reach and that compares by content."""
    if isinstance(value, _IMMUTABLE):
        return value
    if isinstance(value, list | tuple):
        return [_frozen(item) for item in value]
    if type(value).__module__ == "psycopg.types.json":  # wrappers that compare by identity
        return json.dumps(value.obj, default=repr)
    return copy.deepcopy(value)

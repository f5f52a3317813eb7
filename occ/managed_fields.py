"""ManagedFields: the column that says who owns which field of its row.

``{"replicas": {"at": 42, "apply": ["hpa"], "update": "user:7"}}``: the entry of ``replicas`` was last moved by the
write that became version 42; its owners are the managers that applied it and, at most one, the writer of a plain save.
A field without an entry is nobody's.

The column is never written as a whole: entries are changed in SQL, one by one, so that writers of other fields are not
in each other's way. ``at`` is to a field what the version is to its row: it never repeats, and a write that was decided
on an entry names it in its WHERE.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import NotSupportedError, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Value
from django.db.models.expressions import DatabaseDefault

from occ.attribution import current_field_manager
from occ.fields import unguarded_names
from occ.snapshots import Snapshot

Entry = dict[str, Any]

_LOADED = "occ_loaded"


class ManagedFields(models.JSONField):
    """Who owns which field; see the module.

    It is ``NOT NULL`` with a database default of ``{}``, so that adding it rewrites no table and rows that are there
    start with no owners. Not editable: plain saves leave a value that was assigned alone.
    """

    description = "Owners of the row's fields"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("default", dict)
        kwargs.setdefault("db_default", Value({}, output_field=models.JSONField()))
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        for option in ("default", "db_default", "editable"):
            kwargs.pop(option, None)
        return name, path, args, kwargs

    def contribute_to_class(self, cls: type[models.Model], name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only=private_only)
        cls._occ_managed_fields = self  # type: ignore[attr-defined]

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the owners of a new row: its writer owns what differs from the defaults. An update leaves them be."""
        if not add:
            return F(self.name)
        version: Any = model_instance._occ_version_field  # type: ignore[attr-defined]
        at = version.pre_save(model_instance, True)
        names = [
            name
            for name, column in ownable_fields(type(model_instance)).items()
            if column.attname in model_instance.__dict__ and not _is_default(column, model_instance)
        ]
        entries = {name: {"at": at, **entry} for name, entry in taken(names).items()}
        setattr(model_instance, self.attname, entries)
        return entries

    def changing(self, change: Change, *, at: int | None = None) -> EntriesChanged:
        """Return what to SET the column to, so that ``change`` is made to it as it then is.

        ``at`` is the version that the row gets, where that is known. Else it is one more than the row's, and the
        version must be set after this column: MySQL assigns from left to right.
        """
        version: Any = self.model._occ_version_field  # type: ignore[attr-defined]
        return EntriesChanged(F(self.name), F(version.name), change, at)

    def remember(self, instance: models.Model, using: str, fields: Iterable[str] | None = None) -> None:
        """Note the values of ``instance``, all or those of ``fields``, as those that its row has."""
        if fields is None:
            snapshot = Snapshot(instance, using)
        else:
            loaded: Loaded | None = instance._state.__dict__.get(_LOADED)
            before = Snapshot.of_nothing(using) if loaded is None else loaded.snapshot
            snapshot = before.following(instance, set(fields))
        managed = instance.__dict__.get(self.attname)
        instance._state.occ_loaded = Loaded(self.attname, snapshot, managed)  # type: ignore[attr-defined]

    def changed_on(self, instance: models.Model, update_fields: Iterable[str] | None) -> list[str]:
        """Return the ownable fields that a save of ``instance`` would change: all it writes, if its past is unknown."""
        ownable, loaded = ownable_fields(type(instance)), instance._state.__dict__.get(_LOADED)
        values = instance.__dict__
        names = {n for n, column in ownable.items() if column.attname in values}
        if update_fields is not None:
            written = set(update_fields)
            names = {n for n in names if n in written or ownable[n].attname in written}
        if loaded is not None:
            moved = set(loaded.snapshot.changed(instance))
            names = {n for n in names if n in moved or hasattr(values[ownable[n].attname], "resolve_expression")}
        return sorted(names)

    def follow(self, instance: models.Model, names: Iterable[str], at: int) -> None:
        """Give ``instance`` the entries that a plain write of the fields ``names`` has made in its row."""
        before = instance.__dict__.get(self.attname)
        if before is not None:
            taken_now = {name: {"at": at, **entry} for name, entry in taken(names).items()}
            instance.__dict__[self.attname] = {**before, **taken_now}


@dataclass(frozen=True)
class Loaded:
    """What an object's row held when it was read or written last."""

    attname: str
    snapshot: Snapshot
    managed: Mapping[str, Entry] | None

    def restore(self, instance: models.Model) -> None:
        """Have ``instance`` know this again, after what came later was rolled back."""
        instance._state.occ_loaded = self  # type: ignore[attr-defined]
        if self.managed is not None:
            instance.__dict__[self.attname] = self.managed


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of some entries.

    Attributes:
        entries: the new entries by field, without their ``at``, which is the version that the row gets.
        removed: the fields whose entries go.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.entries or self.removed)

    def sql(self, vendor: str, column: str, following: str) -> tuple[str, list[Any]]:
        """Return SQL for the changed column; ``column`` and ``following``, the next version, are SQL themselves."""
        if vendor == "postgresql":
            return self._postgresql(column, following)
        if vendor not in ("sqlite", "mysql"):
            raise NotSupportedError(f"Field ownership works on PostgreSQL, MySQL, MariaDB and SQLite, not on {vendor}.")
        sql, params = column, []
        if self.removed:
            sql = f"JSON_REMOVE({sql}{', %s' * len(self.removed)})"
            params += [json_path(name) for name in self.removed]
        if self.entries:
            sql = f"JSON_SET({sql}{f', %s, JSON_SET(%s, {_AT}, {following})' * len(self.entries)})"
            for name, entry in self.entries.items():
                params += [json_path(name), json.dumps(entry)]
        return sql, params

    def _postgresql(self, column: str, following: str) -> tuple[str, list[Any]]:
        sql, params = column, list[Any]()
        if self.removed:
            sql = f"({sql} - %s::text[])"
            params.append(list(self.removed))
        if self.entries:
            pair = f"%s::text, %s::jsonb || jsonb_build_object('at', {following})"
            sql = f"({sql} || jsonb_build_object({', '.join([pair] * len(self.entries))}))"
            for name, entry in self.entries.items():
                params += [name, json.dumps(entry)]
        return sql, params


_AT = "'$.at'"


class EntriesChanged(models.Expression):
    """The column with a change made to it, ``at`` the version given or the one after the row's."""

    def __init__(self, column: Any, version: Any, change: Change, at: int | None) -> None:
        super().__init__(output_field=models.JSONField())
        self.column, self.version, self.change, self.at = column, version, change, at

    def get_source_expressions(self) -> list[Any]:
        return [self.column, self.version]

    def set_source_expressions(self, exprs: Sequence[Any]) -> None:
        self.column, self.version = exprs

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, _ = compiler.compile(self.column)
        version, _ = compiler.compile(self.version)
        following = f"{version} + 1" if self.at is None else str(self.at)
        sql, params = self.change.sql(connection.vendor, column, following)
        return sql, tuple(params)


class Unmoved(models.Expression):
    """Whether the entries of some fields are those that a decision was made on: a condition for a WHERE."""

    conditional = True

    def __init__(self, column: Any, found: Mapping[str, int | None]) -> None:
        super().__init__(output_field=models.BooleanField())
        self.column, self.found = column, found

    def get_source_expressions(self) -> list[Any]:
        return [self.column]

    def set_source_expressions(self, exprs: Sequence[Any]) -> None:
        (self.column,) = exprs

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, _ = compiler.compile(self.column)
        conditions: list[str] = []
        params: list[Any] = []
        for name, at in self.found.items():
            if connection.vendor == "postgresql":
                entry = f"({column} -> %s::text ->> 'at')::bigint"
                params.append(name)
            else:
                entry = f"JSON_EXTRACT({column}, %s)"
                params.append(f"{json_path(name)}.at")
            if at is None:
                conditions.append(f"{entry} IS NULL")
            else:
                conditions.append(f"{entry} = {at:d}")
        return f"({' AND '.join(conditions) or '1 = 1'})", tuple(params)


def json_path(name: str) -> str:
    """Return the path of a field's entry, for SQLite and MySQL."""
    return f'$."{name}"'


def taken(names: Iterable[str]) -> dict[str, Entry]:
    """Return the entries of fields that a plain write takes for the current field manager."""
    manager = current_field_manager()
    return {name: {"update": manager} for name in names}


@functools.cache
def ownable_fields(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    """Return the fields of ``model`` that a manager can own, by name.

    Not the key, nor what Django and the database write by themselves, nor ``occ_unguarded_fields``.
    """
    ours = {getattr(model, "_occ_version_field", None), getattr(model, "_occ_managed_fields", None)}
    unguarded = unguarded_names(model)
    return {
        column.name: column
        for column in model._meta.concrete_fields
        if not (column.primary_key or column.generated or column in ours or column.name in unguarded)
        and not (getattr(column, "auto_now", False) or getattr(column, "auto_now_add", False))
        and not (column.remote_field and getattr(column.remote_field, "parent_link", False))
    }


def _is_default(column: models.Field[Any, Any], instance: models.Model) -> bool:
    """Tell whether a new object has just its default there. What a function computes as default counts as such."""
    value = instance.__dict__[column.attname]
    if isinstance(value, DatabaseDefault):
        return True
    if column.has_db_default() and not column.has_default():
        return bool(value == column.db_default)
    if callable(column.default) and not isinstance(column.default, type):
        return True
    return bool(value == column.get_default())

"""The guarded bulk_update: many rows, each conditional on its version, in as few statements as the database allows.

PostgreSQL and SQLite write a batch by ``UPDATE ... FROM`` a table of values, on the condition that every row of the
batch is still at its version: the statement writes all of them or none. MySQL and MariaDB cannot look at the table
they update, so there the rows are locked and compared first. What these cannot carry (expressions, fields with SQL of
their own, types without a known cast, filtered querysets, models of several tables) is written row by row, each by a
guarded UPDATE.

Rows are locked in the order of their keys, so that two bulk writers cannot deadlock on each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Cast

from occ.exceptions import BulkConflict, Conflict
from occ.fields import VersionField, get_version
from occ.journal import record
from occ.keys import comparable
from occ.locks import take_write_lock
from occ.managed_fields import Change, ManagedFields, ownable_fields, taken
from occ.refusals import announce, refuse_changed_key, shows_undone, undone_message
from occ.signals import rows_written, send_rows_written, write_observers

_M = TypeVar("_M", bound=models.Model)

# PostgreSQL needs the type of each column of values. Those whose cast could lose something are left out, and so are
# all that extensions define.
_CASTABLE = re.compile(
    r"(smallint|integer|bigint|boolean|double precision|real|numeric(\(\d+, ?\d+\))?|varchar|text|date|time|"
    r"time without time zone|timestamp with(out)? time zone|interval|uuid|jsonb)(\[\])*"
)
_LENGTH = re.compile(r"\b(varchar|char|character varying)\(\d+\)")  # a cast to it would cut silently
_MYSQL_BATCH = 1000  # rows, to stay far below max_allowed_packet


class BulkUpdate:
    """One call of ``bulk_update``: what is written, and how this database writes it."""

    def __init__(
        self,
        model: type[models.Model],
        using: str,
        objs: Sequence[models.Model],
        fields: Sequence[models.Field[Any, Any]],
    ) -> None:
        self.model = model
        self.connection: BaseDatabaseWrapper = connections[using]
        self.using = using
        self.objs = objs
        self.fields = fields
        self.version: VersionField = model._occ_version_field  # type: ignore[attr-defined]
        self.expected = [get_version(obj) for obj in objs]
        self.keys: list[models.Field[Any, Any]] = list(model._meta.pk_fields)
        self.owners: ManagedFields | None = getattr(model, "_occ_managed_fields", None)
        self.owned = [field.name for field in fields if self.owners and field.name in ownable_fields(model)]

    # -- the fast way ------------------------------------------------------------------------------------------------

    def is_fast(self) -> bool:
        """Tell whether this database can carry all the values in one statement."""
        if self.connection.vendor not in ("postgresql", "sqlite", "mysql"):
            return False
        columns = [*self.keys, self.version, *self.fields, *([self.owners] if self.owners and self.owned else ())]
        if any(field.model._meta.concrete_model is not self.model._meta.concrete_model for field in columns):
            return False
        if self.connection.vendor == "sqlite" and self.connection.Database.sqlite_version_info < (3, 35):  # type: ignore[attr-defined]
            return False
        if not all(self._carries(field) for field in columns if field is not self.owners):
            return False
        attnames = [field.attname for field in self.fields]
        return not any(hasattr(getattr(obj, name), "resolve_expression") for obj in self.objs for name in attnames)

    def _carries(self, field: models.Field[Any, Any]) -> bool:
        named = [getattr(type(field), name, None) for name in ("get_placeholder", "get_placeholder_sql")]
        own = [method for method in named if method is not None]
        if self.connection.vendor == "postgresql":
            django_only = all(method.__module__.startswith("django.") for method in own)  # those only cast
            return django_only and bool(_CASTABLE.fullmatch(self._cast(field)))
        return not own or isinstance(field, models.JSONField)

    def _cast(self, field: models.Field[Any, Any]) -> str:
        declared = field.rel_db_type(self.connection) if field in self.keys else field.db_type(self.connection)
        return _LENGTH.sub("varchar", declared or "")

    def write_fast(self, batch_size: int | None) -> list[int]:
        """Write all rows or, in the batch that holds a stale one, none of it. Return the positions of stale rows."""
        for start, stop in self.batches(batch_size):
            if self.connection.vendor == "mysql" and (stale := self.stale(range(start, stop), lock=True)):
                return stale
            if self._execute(start, stop) != stop - start:
                return self.stale(range(start, stop), lock=False)
        return []

    def batches(self, batch_size: int | None) -> Iterator[tuple[int, int]]:
        """Yield the (start, stop) of each statement."""
        size = len(self.objs)
        if self.connection.vendor == "mysql":
            size = _MYSQL_BATCH
        elif self.connection.features.max_query_params and self.connection.vendor != "postgresql":
            size = max(1, (self.connection.features.max_query_params - 1) // (len(self.keys) + 1 + len(self.fields)))
        size = max(1, min(size, batch_size or size))
        for start in range(0, len(self.objs), size):
            yield start, min(start + size, len(self.objs))

    def _execute(self, start: int, stop: int) -> int:
        columns = self._columns(start, stop)
        sql, params = {
            "postgresql": self._postgresql,
            "sqlite": self._sqlite,
            "mysql": self._mysql,
        }[self.connection.vendor](columns)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            if self.connection.vendor == "sqlite":  # Python's driver counts no rows of a statement that begins WITH
                return len(cursor.fetchall())
            return int(cursor.rowcount)

    def _columns(self, start: int, stop: int) -> list[list[Any]]:
        objs = self.objs[start:stop]

        def prepared(field: models.Field[Any, Any]) -> list[Any]:
            return [field.get_db_prep_save(getattr(obj, field.attname), self.connection) for obj in objs]

        return [*map(prepared, self.keys), self.expected[start:stop], *map(prepared, self.fields)]

    def _names(self) -> tuple[str, list[str], list[str], str, list[str]]:
        """Return the quoted table, the key columns, their names in the values, the version and the SET list."""
        quote = self.connection.ops.quote_name
        keys = [quote(str(field.column)) for field in self.keys]
        version = quote(str(self.version.column))
        written = [quote(str(field.column)) for field in self.fields]
        return quote(self.model._meta.db_table), keys, [f"k{i}" for i in range(len(keys))], version, written

    def _ownership(self, table: str, version: str) -> tuple[str, list[Any]]:
        """Return what else to SET: the owners of the fields, dated by the version to come, so before it on MySQL."""
        if self.owners is None or not self.owned:
            return "", []
        column = f"{table}.{self.connection.ops.quote_name(str(self.owners.column))}"
        change = Change(entries=taken(self.owned))
        sql, params = change.sql(self.connection.vendor, column, f"{table}.{version} + 1")
        target = column if self.connection.vendor == "mysql" else column.removeprefix(f"{table}.")
        return f"{target} = {sql}, ", params

    def _postgresql(self, columns: list[list[Any]]) -> tuple[str, list[Any]]:
        table, keys, aliases, version, written = self._names()
        fields = [*self.keys, self.version, *self.fields]
        casts = [self._cast(field) for field in fields]
        names = [*aliases, "v", *(f"c{i}" for i in range(len(written)))]
        if any(cast.endswith("[]") for cast in casts):  # unnest would flatten them
            row = f"({', '.join(f'%s::{cast}' for cast in casts)})"
            source = f"VALUES {', '.join([row] * len(columns[0]))}"
            params = [value for row_values in zip(*columns, strict=True) for value in row_values]
        else:
            source = f"SELECT * FROM unnest({', '.join(f'%s::{cast}[]' for cast in casts)})"  # noqa: S608
            params = list(columns)
        same = " AND ".join(f"t.{key} = vals.{alias}" for key, alias in zip(keys, aliases, strict=True))
        ours = " AND ".join(f"{table}.{key} = vals.{alias}" for key, alias in zip(keys, aliases, strict=True))
        sets = ", ".join(f"{column} = vals.c{i}" for i, column in enumerate(written))
        ownership, owners = self._ownership(table, version)
        sql = (
            f"WITH vals({', '.join(names)}) AS ({source}), "  # noqa: S608
            f"held AS (SELECT t.{version} = vals.v AS current FROM {table} t JOIN vals ON {same} "
            f"ORDER BY {', '.join(f't.{key}' for key in keys)} FOR NO KEY UPDATE OF t) "
            f"UPDATE {table} SET {sets}, {ownership}{version} = {table}.{version} + 1 FROM vals "
            f"WHERE {ours} AND {table}.{version} = vals.v "
            f"AND (SELECT count(*) FROM held WHERE current) = %s"
        )
        return sql, [*params, *owners, len(columns[0])]

    def _sqlite(self, columns: list[list[Any]]) -> tuple[str, list[Any]]:
        table, keys, aliases, version, written = self._names()
        names = [*aliases, "v", *(f"c{i}" for i in range(len(written)))]
        row = f"({', '.join(['%s'] * len(names))})"
        same = " AND ".join(f"t.{key} = vals.{alias}" for key, alias in zip(keys, aliases, strict=True))
        ours = " AND ".join(f"{table}.{key} = vals.{alias}" for key, alias in zip(keys, aliases, strict=True))
        sets = ", ".join(f"{column} = vals.c{i}" for i, column in enumerate(written))
        ownership, owners = self._ownership(table, version)
        sql = (
            f"WITH vals({', '.join(names)}) AS (VALUES {', '.join([row] * len(columns[0]))}) "  # noqa: S608
            f"UPDATE {table} SET {sets}, {ownership}{version} = {table}.{version} + 1 FROM vals "
            f"WHERE {ours} AND {table}.{version} = vals.v "
            f"AND (SELECT count(*) FROM {table} t JOIN vals ON {same} AND t.{version} = vals.v) = %s RETURNING 1"
        )
        params = [value for row_values in zip(*columns, strict=True) for value in row_values]
        return sql, [*params, *owners, len(columns[0])]

    def _mysql(self, columns: list[list[Any]]) -> tuple[str, list[Any]]:
        table, keys, aliases, version, written = self._names()
        names = [*aliases, "v", *(f"c{i}" for i in range(len(written)))]
        first = f"SELECT {', '.join(f'%s AS {name}' for name in names)}"
        more = f" UNION ALL SELECT {', '.join(['%s'] * len(names))}" * (len(columns[0]) - 1)
        ours = " AND ".join(f"t.{key} = vals.{alias}" for key, alias in zip(keys, aliases, strict=True))
        sets = ", ".join(f"t.{column} = vals.c{i}" for i, column in enumerate(written))
        ownership, owners = self._ownership("t", version)
        sql = (
            f"UPDATE {table} t JOIN ({first}{more}) vals ON {ours} AND t.{version} = vals.v "  # noqa: S608
            f"SET {sets}, {ownership}t.{version} = t.{version} + 1"
        )
        params = [value for row_values in zip(*columns, strict=True) for value in row_values]
        return sql, [*params, *owners]

    # -- row by row --------------------------------------------------------------------------------------------------

    def write_each(self, queryset: models.QuerySet[Any]) -> list[int]:
        """Write row by row through ``queryset``, up to the first stale one. Return its position, if there is one."""
        root = self.version.model._base_manager.using(self.using)
        local = self.model._meta.concrete_model is self.version.model
        for position, (obj, expected) in enumerate(zip(self.objs, self.expected, strict=True)):
            values = {field.attname: self._typed(field, getattr(obj, field.attname)) for field in self.fields}
            rows = queryset.filter(pk=obj.pk)
            following: dict[str, Any] = {self.version.name: expected + 1}
            if self.owners is not None and self.owned:
                change = Change(entries=taken(self.owned))
                following[self.owners.name] = self.owners.changing(change, at=expected + 1)
            if local:
                written = models.QuerySet.update(rows.filter(**{self.version.name: expected}), **values, **following)
            else:  # the root first: once it is moved the row is ours
                guard = root.filter(pk=obj.pk, **{self.version.name: expected})
                written = models.QuerySet.update(guard, **following) and models.QuerySet.update(rows, **values)
            if not written:
                return [position]
        return []

    def _typed(self, field: models.Field[Any, Any], value: Any) -> Any:
        """Give an expression the field's type, as Django's bulk_update does: a JSONField refuses one without a type."""
        if not hasattr(value, "resolve_expression"):
            return value
        case = models.Case(default=value, output_field=field)
        return Cast(case, field) if self.connection.features.requires_casted_case_in_updates else case

    # -- what is stale -----------------------------------------------------------------------------------------------

    def stale(self, positions: Sequence[int], *, lock: bool) -> list[int]:
        """Return those of ``positions`` whose rows are no longer at the version that was read."""
        found = self.versions_now(positions, lock=lock)
        undone = self.undone()
        return [i for i in positions if i in undone or found.get(self.key(i)) != self.expected[i]]

    def key(self, position: int) -> Any:
        """Return the key of an object in its Python type, as rows have it."""
        return comparable(self.model, self.objs[position].pk)

    def undone(self) -> set[int]:
        """Return the positions of objects that show a write that has been rolled back."""
        return {i for i, obj in enumerate(self.objs) if "occ_reading" in obj._state.__dict__ and shows_undone(obj)}

    def among(self, queryset: models.QuerySet[Any]) -> set[Any]:
        """Return the keys of the rows that ``queryset`` shows."""
        found: set[Any] = set()
        for part in self._parts(self.objs):
            found.update(queryset.filter(pk__in=part).values_list("pk", flat=True))
        return found

    def versions_now(self, positions: Sequence[int], *, lock: bool) -> dict[Any, int]:
        """Return the versions of the rows by key; ``lock`` keeps them so to the end of the transaction."""
        rows = self.model._base_manager.using(self.using).order_by("pk")
        if lock and self.connection.features.has_select_for_update:
            rows = rows.select_for_update()
        elif lock:
            take_write_lock(self.model, self.connection)
        found: dict[Any, int] = {}
        for part in self._parts([self.objs[i] for i in positions]):
            found.update(rows.filter(pk__in=part).values_list("pk", self.version.attname))
        return found

    def _parts(self, objs: Sequence[models.Model]) -> Iterator[list[Any]]:
        """Yield the keys of ``objs``, as many at a time as a statement takes."""
        size = max(1, (self.connection.features.max_query_params or len(objs)) // len(self.keys))
        for start in range(0, len(objs), size):
            yield [obj.pk for obj in objs[start : start + size]]

    def conflicts(self, positions: Sequence[int]) -> list[Conflict]:
        """Say of each stale row what was expected and what was found."""
        found, undone = self.versions_now(positions, lock=False), self.undone()
        return [
            Conflict(
                undone_message(self.objs[i], "bulk_update") if i in undone else None,
                model=self.model,
                pk=self.objs[i].pk,
                expected=self.expected[i],
                actual=found.get(self.key(i)),
                operation="bulk_update",
                using=self.using,
                instance=self.objs[i],
            )
            for i in positions
        ]

    def move_versions(self) -> None:
        """Move the versions in memory along with the rows."""
        journaled, root = self.connection.in_atomic_block, self.version.model
        for obj, expected in zip(self.objs, self.expected, strict=True):
            if journaled:
                past = obj._state.__dict__.get("occ_loaded")
                record(self.connection, obj, root, obj._get_pk_val(root._meta), expected, past=past)
            obj.__dict__[self.version.attname] = expected + 1
            if self.owners is not None:
                self.owners.follow(obj, self.owned, expected + 1)
                self.owners.remember(obj, self.using, [field.name for field in self.fields])


def bulk_update(
    queryset: models.QuerySet[_M],
    objs: Sequence[_M],
    fields: Sequence[models.Field[Any, Any]],
    batch_size: int | None,
    *,
    skip: bool,
) -> list[_M]:
    """Write ``fields`` of ``objs``, guarded; return the stale ones that were skipped.

    Raises:
        BulkConflict: rows were stale and ``skip`` is False; none was written.
        Conflict: the primary key of an object is not that of the row that was read; none was written.
    """
    using = queryset.db
    connection = connections[using]
    work = BulkUpdate(queryset.model, using, objs, fields)
    for obj, expected in zip(objs, work.expected, strict=True):
        refuse_changed_key(obj, "bulk_update", expected, using)
    fast = not queryset.query.where and work.is_fast()
    stale: list[int] = []
    usable = connection.in_atomic_block and not connection.needs_rollback
    # One statement writes all or nothing by itself; what takes several is undone as one.
    by_itself = fast and not skip and len(list(work.batches(batch_size))) == 1
    try:
        with transaction.atomic(using=using, savepoint=not by_itself):
            if skip:
                stale = work.stale(range(len(objs)), lock=True)
                if queryset.query.where:  # the rows that it leaves out are not to be written either
                    shown = work.among(queryset)
                    stale = sorted({*stale, *(i for i in range(len(objs)) if work.key(i) not in shown)})
                left_out = set(stale)
                work = BulkUpdate(queryset.model, using, [o for i, o in enumerate(objs) if i not in left_out], fields)
            refused = sorted(work.undone())
            refused = refused or (work.write_fast(batch_size) if fast else work.write_each(queryset))
            if refused:
                raise _Refused(refused)
            work.move_versions()
            for observe in write_observers if work.objs else ():
                observe(queryset.model, len(work.objs))
            if work.objs and rows_written.has_listeners(queryset.model):
                send_rows_written(queryset.model, using, [obj.pk for obj in work.objs], "bulk_update")
    except _Refused as error:
        if usable:
            connection.needs_rollback = False
        # Read after the rollback: rows that were written before the stale one was met are not stale.
        positions = work.stale(range(len(objs)), lock=False) or error.positions
        conflict = BulkConflict(conflicts=work.conflicts(positions))
        conflict.leaves_transaction_usable = usable
        announce(conflict)
        raise conflict from None
    return [objs[i] for i in stale]


class _Refused(Exception):
    """Leaves the transaction of a bulk write: the rows at ``positions`` are stale."""

    def __init__(self, positions: list[int]) -> None:
        self.positions = positions

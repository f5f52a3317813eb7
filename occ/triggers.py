"""The trigger that counts the writes of those who leave the version alone: its SQL, and whether a database has it.

Used by the constraint and the migration operations; knows tables and columns, not models. All three databases follow
one rule: an UPDATE that leaves a row's version as it was adds one to it, unless it wrote nothing but unguarded
columns. An ORM write sets the version itself and is let pass.

``Trigger`` is a deferred DDL reference of Django's (``django.db.backends.ddl_references``, private): a migration that
creates a table and then renames it, or a column, finds the new names in the SQL that waits for its end.
tests/occ/triggers/test_migrations.py pins that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.ddl_references import Reference, Statement
from django.db.backends.utils import truncate_name


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """What the trigger of one table is made from: names as they are in the database, unquoted.

    Attributes:
        name: the trigger's own name, already short enough for the database.
        table: the table whose rows it watches.
        version: the column that it moves.
        keys: the columns of the primary key.
        ignored: columns whose writes alone do not count. Empty: every UPDATE counts.
        watched: the other columns, those that count. Empty when nothing is ignored.
        texts: the watched columns that hold text, which a collation may call equal when they are not.
    """

    name: str
    table: str
    version: str
    keys: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def renamed(self, old: str, new: str) -> Trigger:
        """Return the trigger for the same table with a column renamed."""

        def rename(columns: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if column == old else column for column in columns)

        return replace(
            self,
            version=new if self.version == old else self.version,
            keys=rename(self.keys),
            ignored=rename(self.ignored),
            watched=rename(self.watched),
            texts=rename(self.texts),
        )


def create_statements(trigger: Trigger, connection: BaseDatabaseWrapper) -> list[Statement]:
    """Return the statements that create the trigger, or replace it, to be run in this order without parameters."""
    quote = connection.ops.quote_name
    renders = _dialect(connection).create
    return [Statement("%(sql)s", sql=_TriggerReference(trigger, render, quote)) for render in renders]


def drop_statement(name: str, table: str, connection: BaseDatabaseWrapper) -> str:
    """Return the statement that drops the trigger of that name if there is one."""
    return _dialect(connection).drop(name, table, connection.ops.quote_name)


def creates(statement: object, name: str) -> bool:
    """Tell whether a deferred statement creates the trigger of that name."""
    part: object = statement.parts.get("sql") if isinstance(statement, Statement) else None
    return isinstance(part, _TriggerReference) and part.trigger.name == name


def find_fault(trigger: Trigger, connection: BaseDatabaseWrapper) -> str | None:
    """Return what keeps the trigger from working in this database ("is missing"), or None.

    A table that does not exist has no fault: it has no rows either.
    """
    return _dialect(connection).fault(trigger, connection)


def trigger_name(name: str, connection: BaseDatabaseWrapper) -> str:
    """Return ``name`` as short as the database wants it."""
    return truncate_name(name, connection.ops.max_name_length())


Quote = Callable[[str], str]
Render = Callable[[Trigger, Quote], str]


@dataclass(frozen=True, kw_only=True)
class _Dialect:
    create: Sequence[Render]
    drop: Callable[[str, str, Quote], str]
    fault: Callable[[Trigger, BaseDatabaseWrapper], str | None]


class _TriggerReference(Reference):
    """A piece of SQL about a trigger that follows the renames of its table and columns until it is run."""

    def __init__(self, trigger: Trigger, render: Render, quote: Quote) -> None:
        self.trigger = trigger
        self.render = render
        self.quote = quote

    def references_table(self, table: str) -> bool:
        return self.trigger.table == table

    def references_column(self, table: str, column: str) -> bool:
        # Only a statement about the dropped version is pointless; other columns are left to operations.keep_triggers.
        return self.trigger.table == table and self.trigger.version == column

    def rename_table_references(self, old_table: str, new_table: str) -> None:
        if self.trigger.table == old_table:
            self.trigger = replace(self.trigger, table=new_table)

    def rename_column_references(self, table: str, old_column: str, new_column: str) -> None:
        if self.trigger.table == table:
            self.trigger = self.trigger.renamed(old_column, new_column)

    def __str__(self) -> str:
        return self.render(self.trigger, self.quote)


def _dialect(connection: BaseDatabaseWrapper) -> _Dialect:
    if connection.vendor == "mysql":
        return _MARIADB if connection.mysql_is_mariadb else _MYSQL  # type: ignore[attr-defined]
    dialect = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE}.get(connection.vendor)
    if dialect is None:
        raise NotSupportedError(
            f"There is no version trigger for {connection.display_name}; it exists for PostgreSQL, MySQL, MariaDB "
            "and SQLite. Remove it, and let only Django write these rows."
        )
    return dialect


# PostgreSQL -----------------------------------------------------------------------------------------------------------

# One function per schema and version column, shared by the tables. PostgreSQL follows renames in the trigger's WHEN,
# not in the function's text: so when the column is gone, the function finds what the WHEN names today, which is too
# slow to do for every row. (A new column that takes the old name meanwhile would be moved instead; ``migrate`` creates
# the trigger anew before that can happen.) Columns to ignore are an argument, as JSON nulls that blank them in both
# rows; *= compares bytes, since json and others have no equality of their own.
_FUNCTION = """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $occ$
DECLARE
    present name;
    current bigint;
BEGIN
    IF TG_NARGS > 0 AND jsonb_populate_record(OLD, TG_ARGV[0]::jsonb) *= jsonb_populate_record(NEW, TG_ARGV[0]::jsonb)
    THEN
        RETURN NEW;
    END IF;
    BEGIN
        NEW.{version} := OLD.{version} + 1;
    EXCEPTION WHEN undefined_column THEN
        SELECT a.attname INTO STRICT present
        FROM pg_trigger t
        JOIN pg_depend d ON d.classid = 'pg_trigger'::regclass AND d.objid = t.oid
            AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.tgrelid AND d.refobjsubid > 0
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE t.tgrelid = coalesce(pg_partition_root(TG_RELID), TG_RELID) AND t.tgname = TG_NAME;
        EXECUTE 'SELECT ($1).' || quote_ident(present) INTO current USING OLD;
        NEW := jsonb_populate_record(NEW, jsonb_build_object(present, current + 1));
    END;
    RETURN NEW;
END
$occ$"""


def _postgresql_function(trigger: Trigger, quote: Quote) -> str:
    return _FUNCTION.format(function=_function_name(trigger, quote), version=quote(trigger.version))


def _postgresql_trigger(trigger: Trigger, quote: Quote) -> str:
    version = quote(trigger.version)
    ignored = json.dumps(dict.fromkeys(trigger.ignored)) if trigger.ignored else ""
    return (
        f"CREATE OR REPLACE TRIGGER {quote(trigger.name)} BEFORE UPDATE ON {quote(trigger.table)} FOR EACH ROW "
        f"WHEN (OLD.{version} = NEW.{version}) "
        f"EXECUTE FUNCTION {_function_name(trigger, quote)}({_literal(ignored) if ignored else ''})"
    )


def _postgresql_drop(name: str, table: str, quote: Quote) -> str:
    trigger, on = quote(name), quote(table)
    return f"""DO $occ$
DECLARE
    moved regprocedure := (
        SELECT tgfoid FROM pg_trigger
        WHERE tgrelid = to_regclass({_literal(on)}) AND tgname = {_literal(name)}
    );
BEGIN
    DROP TRIGGER IF EXISTS {trigger} ON {on};
    IF moved IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || moved::text;
    END IF;
EXCEPTION WHEN dependent_objects_still_exist THEN
    -- Triggers of other tables use the function; this block's DROP TRIGGER was undone with it.
    DROP TRIGGER IF EXISTS {trigger} ON {on};
END
$occ$"""  # noqa: S608


def _function_name(trigger: Trigger, quote: Quote) -> str:
    # db_table = 'schema"."table' is Django's way to name a schema; the function belongs beside the table.
    schema, dot, _ = quote(trigger.table).rpartition('"."')
    name = quote(_function(trigger.version))
    return f'{schema}".{name}' if dot else name


def _function(version: str) -> str:
    return truncate_name(f"occ_move_{version}", 63)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _postgresql_fault(trigger: Trigger, connection: BaseDatabaseWrapper) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.tgenabled, f.proname FROM (SELECT to_regclass(%s) AS oid) c "
            "LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = %s LEFT JOIN pg_proc f ON f.oid = t.tgfoid "
            "WHERE c.oid IS NOT NULL",
            [connection.ops.quote_name(trigger.table), trigger.name],
        )
        found = cursor.fetchone()
    if found is None:
        return None
    enabled, function = found
    if enabled is None:
        return "is missing"
    if enabled not in ("O", "A"):
        return "is disabled"
    return None if function == _function(trigger.version) else f"does not know the column {trigger.version}"


_POSTGRESQL = _Dialect(
    create=[_postgresql_function, _postgresql_trigger], drop=_postgresql_drop, fault=_postgresql_fault
)


# MySQL and MariaDB ----------------------------------------------------------------------------------------------------


def _mysql_trigger(trigger: Trigger, quote: Quote) -> str:
    version = quote(trigger.version)
    condition = f"NEW.{version} = OLD.{version}"
    if trigger.ignored:
        condition += f" AND ({' OR '.join(_mysql_differs(column, trigger, quote) for column in trigger.watched)})"
    return (
        f"TRIGGER {quote(trigger.name)} BEFORE UPDATE ON {quote(trigger.table)} FOR EACH ROW "  # noqa: S608
        f"SET NEW.{version} = IF({condition}, OLD.{version} + 1, NEW.{version})"
    )


def _mysql_differs(column: str, trigger: Trigger, quote: Quote) -> str:
    old, new = f"OLD.{quote(column)}", f"NEW.{quote(column)}"
    if column in trigger.texts:
        old, new = f"CAST({old} AS BINARY)", f"CAST({new} AS BINARY)"
    return f"NOT ({old} <=> {new})"


def _drop(name: str, table: str, quote: Quote) -> str:
    return f"DROP TRIGGER IF EXISTS {quote(name)}"


def _drop_first(trigger: Trigger, quote: Quote) -> str:
    return _drop(trigger.name, trigger.table, quote)


def _mysql_fault(trigger: Trigger, connection: BaseDatabaseWrapper) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.ACTION_STATEMENT FROM information_schema.TABLES c LEFT JOIN information_schema.TRIGGERS t "
            "ON t.EVENT_OBJECT_SCHEMA = c.TABLE_SCHEMA AND t.EVENT_OBJECT_TABLE = c.TABLE_NAME AND t.TRIGGER_NAME = %s "
            "WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = %s",
            [trigger.name, trigger.table],
        )
        return _fault_of_text(cursor.fetchone(), trigger, connection)


def _fault_of_text(found: Any, trigger: Trigger, connection: BaseDatabaseWrapper) -> str | None:
    if found is None:
        return None
    if found[0] is None:
        return "is missing"
    columns = (trigger.version, *trigger.watched)
    unknown = [column for column in columns if connection.ops.quote_name(column) not in found[0]]
    return f"does not know the column {unknown[0]}" if unknown else None


_MYSQL = _Dialect(
    create=[_drop_first, lambda trigger, quote: f"CREATE {_mysql_trigger(trigger, quote)}"],
    drop=_drop,
    fault=_mysql_fault,
)
_MARIADB = _Dialect(
    create=[lambda trigger, quote: f"CREATE OR REPLACE {_mysql_trigger(trigger, quote)}"],
    drop=_drop,
    fault=_mysql_fault,
)


# SQLite ---------------------------------------------------------------------------------------------------------------


def _sqlite_trigger(trigger: Trigger, quote: Quote) -> str:
    version, table = quote(trigger.version), quote(trigger.table)
    # SQLite refuses to drop a column that the body or the WHEN of a trigger names, but not one in the OF list.
    of = f" OF {', '.join(quote(column) for column in trigger.watched)}" if trigger.ignored else ""
    same_row = " AND ".join(f"{quote(key)} = NEW.{quote(key)}" for key in trigger.keys)
    return (
        f"CREATE TRIGGER {quote(trigger.name)} AFTER UPDATE{of} ON {table} FOR EACH ROW "  # noqa: S608
        f"WHEN NEW.{version} = OLD.{version} "
        # A second trigger may have counted already.
        f"BEGIN UPDATE {table} SET {version} = OLD.{version} + 1 WHERE {same_row} AND {version} = OLD.{version}; END"
    )


def _sqlite_fault(trigger: Trigger, connection: BaseDatabaseWrapper) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.sql FROM sqlite_master c LEFT JOIN sqlite_master t "
            "ON t.type = 'trigger' AND t.tbl_name = c.name AND t.name = %s WHERE c.type = 'table' AND c.name = %s",
            [trigger.name, trigger.table],
        )
        return _fault_of_text(cursor.fetchone(), trigger, connection)


_SQLITE = _Dialect(create=[_drop_first, _sqlite_trigger], drop=_drop, fault=_sqlite_fault)

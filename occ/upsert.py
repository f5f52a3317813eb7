"""INSERT ... ON CONFLICT UPDATE whose updated rows move their version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.db import NotSupportedError
from django.db.models import sql

from occ.managed_fields import Change, taken


class UpsertQuery(sql.InsertQuery):
    """An INSERT that, where the row exists, also adds one to its version.

    Django can only say ``column = <the value that was to be inserted>``. For the version that one assignment is put
    right in the finished statement; where it is not found the statement is refused, never run unguarded.
    """

    version: Any  # the VersionField; a typed attribute would be taken for a model's column
    owners: Any = None  # the ManagedFields of a model with field ownership
    owned: Sequence[str] = ()  # the fields that are updated, whose owner is the writer then

    def get_compiler(self, *args: Any, **kwargs: Any) -> Any:
        compiler = super().get_compiler(*args, **kwargs)
        compile_insert, quote = compiler.as_sql, compiler.connection.ops.quote_name
        vendor = compiler.connection.vendor
        table, version = quote(self.get_meta().db_table), quote(str(self.version.column))
        assigned = {version: f"{table}.{version} + 1"}
        more: list[Any] = []  # the assignments come last in the statement, and so do their parameters
        if self.owners is not None:
            column = quote(str(self.owners.column))
            change = Change(entries=taken(self.owned))
            assigned[column], more = change.sql(vendor, f"{table}.{column}", f"{table}.{version} + 1")

        def as_sql() -> list[tuple[str, Any]]:
            statements = []
            for statement, params in compile_insert():
                for name, value in assigned.items():
                    statement = self._assign(statement, name, value, vendor)
                statements.append((statement, [*params, *more]))
            return statements

        compiler.as_sql = as_sql
        return compiler

    def _assign(self, statement: str, column: str, value: str, vendor: str) -> str:
        given = rf"{re.escape(column)} = (EXCLUDED\.|VALUES?\(|new\.){re.escape(column)}\)?(?=,| |$)"
        assigned, found = re.subn(given, lambda _: f"{column} = {value}", statement)
        if found != 1:
            raise NotSupportedError(
                f"bulk_create(update_conflicts=True) cannot move the versions of {self.get_meta().label} on "
                f"{vendor}. Read the rows and use bulk_update() for those that exist."
            )
        return assigned

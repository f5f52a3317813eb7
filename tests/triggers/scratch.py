"""An app whose migrations a test makes up: what they do to a table and its version trigger."""

from __future__ import annotations

from typing import Any

from django.db import connection, migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from occ.constraints import VersionTrigger
from occ.fields import VersionField
from occ.operations import keep_triggers


class Scratch:
    """An app of its own, "scratch", whose migrations a test makes up and runs one after the other."""

    def __init__(self) -> None:
        self.state = ProjectState()
        self.applied: list[tuple[ProjectState, migrations.Migration]] = []

    def migrate(self, *operations: Operation, kept: bool = True) -> None:
        """Run a migration of these operations; as the migrate command does, or (not kept) as they are."""
        migration = self._migration(operations, backwards=False, kept=kept)
        before = self.state.clone()
        with connection.schema_editor() as editor:
            self.state = migration.apply(self.state, editor)
        self.applied.append((before, self._migration(operations, backwards=True, kept=kept)))

    def unapply(self) -> None:
        before, migration = self.applied.pop()
        with connection.schema_editor() as editor:
            migration.unapply(before.clone(), editor)
        self.state = before

    def _migration(self, operations: Any, *, backwards: bool, kept: bool) -> migrations.Migration:
        migration = migrations.Migration("made_up", "scratch")
        migration.operations = list(operations)  # type: ignore[misc]
        if kept:
            keep_triggers(plan=[(migration, backwards)])
        return migration

    def model(self, name: str = "part") -> type[models.Model]:
        return self.state.apps.get_model("scratch", name)

    def insert(self, model: str = "part", **values: Any) -> int:
        return int(self.model(model)._base_manager.create(**values).pk)

    def write(self, model: str = "part", **columns: Any) -> None:
        """Update the rows as somebody does who knows nothing of versions."""
        quote = connection.ops.quote_name
        assignments = ", ".join(f"{quote(column)} = %s" for column in columns)
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {quote(self.model(model)._meta.db_table)} SET {assignments}", [*columns.values()])

    def versions(self, model: str = "part") -> list[int]:
        found = self.model(model)
        return list(found._base_manager.order_by("pk").values_list(found._occ_version_field.name, flat=True))  # type: ignore[attr-defined]

    def drop_tables(self) -> None:
        with connection.schema_editor() as editor:
            for model in reversed(list(self.state.apps.get_models())):
                editor.delete_model(model)


def create(name: str = "Part", *, trigger: bool = True, unguarded: tuple[str, ...] = (), **fields: Any) -> Operation:
    constraint = VersionTrigger(name=f"scratch_{name.lower()}_version", unguarded=unguarded)
    return migrations.CreateModel(
        name,
        fields=[
            ("id", models.BigAutoField(primary_key=True)),
            ("name", models.CharField(max_length=50, default="x")),
            ("stock", models.IntegerField(default=0)),
            ("seen", models.IntegerField(default=0)),
            ("version", VersionField()),
            *fields.items(),
        ],
        options={"constraints": [constraint] if trigger else []},
    )

"""VersionTrigger, for tables that others than Django write: declared in ``Meta.constraints``.

A constraint, since that is what migrations carry through table rebuilds, test databases and back. It finds the version
field by the mark that the field leaves on its model, so that historical models serve as well as real ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import class_prepared

from occ.triggers import Trigger, create_statements, creates, drop_statement, trigger_name

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

DEFAULT_NAME = "%(app_label)s_%(class)s_version"


class VersionTrigger(models.BaseConstraint):
    """Count the writes of those who do not know the version: raw SQL, other programs, the database itself.

    ::

        class Meta:
            constraints = [VersionTrigger()]

    A trigger on PostgreSQL, MySQL, MariaDB and SQLite: an UPDATE that leaves a row's version as it was adds one to
    it, so that whoever read the row before is refused. ORM writes move the version themselves and still count once.
    Writes of nothing but the model's ``occ_unguarded_fields`` do not count. Whether an UPDATE counts that sets a
    column to the value it had is not promised.

    It watches the table of its model only. With multi-table inheritance it belongs on the root, which has the
    version; raw writes of a child's table alone are not seen. MySQL and MariaDB run no trigger for what a foreign
    key's ON DELETE does. ``REPLACE INTO`` makes a new row, whose version starts again.

    Args:
        name: the trigger's name; ``%(app_label)s`` and ``%(class)s`` are filled in.
        unguarded: the fields whose writes alone do not count; by default the model's ``occ_unguarded_fields``.
            Migrations carry it, since the models of the past do not have that attribute.
    """

    def __init__(self, *, name: str = DEFAULT_NAME, unguarded: Iterable[str] | None = None) -> None:
        super().__init__(name=name)
        self.unguarded = None if unguarded is None else tuple(unguarded)

    def constraint_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> str:
        """Have the trigger created when the table is there: at the end of the migration or table rebuild."""
        model, editor = cast("type[models.Model]", model), cast("BaseDatabaseSchemaEditor", schema_editor)
        self._forget_deferred(editor)
        editor.deferred_sql += create_statements(self.trigger(model, editor.connection), editor.connection)
        return ""  # nothing inside CREATE TABLE

    def create_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> Any:
        """Return the statement that creates or replaces the trigger, after running what has to come before it.

        The schema editor may keep it until the table is there: those that come before do not need the table.
        """
        model, editor = cast("type[models.Model]", model), cast("BaseDatabaseSchemaEditor", schema_editor)
        self._forget_deferred(editor)
        *before, last = create_statements(self.trigger(model, editor.connection), editor.connection)
        for statement in before:
            editor.execute(statement, params=None)
        return last

    def remove_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> str:
        """Return the statement that drops the trigger if it is there."""
        model, editor = cast("type[models.Model]", model), cast("BaseDatabaseSchemaEditor", schema_editor)
        self._forget_deferred(editor)
        name = trigger_name(self.name, editor.connection)
        return drop_statement(name, model._meta.db_table, editor.connection)

    def validate(
        self,
        model: type[models.Model],
        instance: models.Model,
        exclude: set[str] | None = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> None:
        """Accept every instance: the trigger forbids nothing."""

    def trigger(self, model: type[models.Model], connection: BaseDatabaseWrapper) -> Trigger:
        """Return what the trigger of ``model`` is made from, in a database.

        Raises:
            ImproperlyConfigured: the model's own table has no version column.
        """
        fields = model._meta.local_concrete_fields
        version = getattr(model, "_occ_version_field", None)
        if version is None or version not in fields:
            raise ImproperlyConfigured(missing_version(model))
        unguarded = {field for field in fields if {field.name, field.attname} & set(self.unguarded or ())}
        derived = {field for field in fields if unguarded and getattr(field, "generated", False)}
        ignored = [field for field in fields if field in unguarded | derived]
        watched = [field for field in fields if ignored and field not in ignored and field is not version]
        return Trigger(
            name=trigger_name(self.name, connection),
            table=model._meta.db_table,
            version=version.column,
            keys=_columns(model._meta.pk_fields),
            ignored=_columns(ignored),
            watched=_columns(watched),
            texts=_columns(field for field in watched if _is_text(field, connection)),
        )

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        if self.unguarded:
            kwargs["unguarded"] = list(self.unguarded)
        return path, args, kwargs

    def __eq__(self, other: object) -> bool:
        if isinstance(other, VersionTrigger):
            return self.deconstruct() == other.deconstruct()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: name={self.name!r} unguarded={self.unguarded!r}>"

    def _forget_deferred(self, schema_editor: BaseDatabaseSchemaEditor) -> None:
        """Drop what an earlier operation of this migration left to its end: it may name a column that is gone."""
        name = trigger_name(self.name, schema_editor.connection)
        schema_editor.deferred_sql[:] = [sql for sql in schema_editor.deferred_sql if not creates(sql, name)]


def missing_version(model: type[models.Model]) -> str:
    """Say why a model cannot have a version trigger."""
    return f"{model._meta.label} has a VersionTrigger, but its table has no version column."


def version_triggers(model: type[models.Model]) -> list[VersionTrigger]:
    """Return the version triggers of a real or historical model."""
    return [constraint for constraint in model._meta.constraints if isinstance(constraint, VersionTrigger)]


def _columns(fields: Iterable[models.Field[Any, Any]]) -> tuple[str, ...]:
    return tuple(cast(str, field.column) for field in fields)


def _is_text(field: models.Field[Any, Any], connection: BaseDatabaseWrapper) -> bool:
    column_type = (field.db_type(connection) or "").lower()
    return "char" in column_type or "text" in column_type


class TriggerOfMigrations:
    """Gives its trigger to a historical model that has it among its bases, out of sight of ``makemigrations``.

    ``AddVersionTrigger`` puts a subclass there. So the trigger is in the constraints of the model wherever the schema
    editor rebuilds or recreates its table, and nowhere that would be compared with the model's own ``Meta``.
    """

    occ_trigger: VersionTrigger


def _equip(sender: type[models.Model], **kwargs: Any) -> None:
    """Give the triggers of a new model class what the class alone knows."""
    for base in sender.__bases__:
        trigger = vars(base).get("occ_trigger") if issubclass(base, TriggerOfMigrations) else None
        if trigger is not None and trigger.name not in {constraint.name for constraint in sender._meta.constraints}:
            sender._meta.constraints = [*sender._meta.constraints, trigger]
    for constraint in version_triggers(sender):
        # "__fake__" is the module of historical models; what their mixins say today does not apply to them.
        if constraint.unguarded is None and sender.__module__ != "__fake__":
            constraint.unguarded = tuple(getattr(sender, "occ_unguarded_fields", ()))


class_prepared.connect(_equip, dispatch_uid="occ.constraints")

"""Migration operations for the version trigger, and what keeps triggers right when columns change under them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.apps import apps as installed_apps
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.fields import FieldOperation

from occ.constraints import DEFAULT_NAME, TriggerOfMigrations, VersionTrigger, version_triggers

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.state import ModelState, ProjectState


class _TriggerOperation(Operation):
    """What adding and removing share. Nothing that ``makemigrations`` compares changes in the state."""

    adds: ClassVar[bool]  # whether the operation creates the trigger when it runs forwards

    def __init__(self, name: str, trigger_name: str | None = None, unguarded: Iterable[str] | None = None) -> None:
        self.name = name
        self.trigger_name = trigger_name
        self.unguarded = None if unguarded is None else list(unguarded)

    def references_model(self, name: str, app_label: str) -> bool:
        # Conservative where only the model's own label tells its app.
        return name.lower() == self.name.lower().rpartition(".")[2]

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        key = self._key(app_label)
        if key not in state.models:
            raise ValueError(
                f"{type(self).__name__}({self.name!r}) finds no model {'.'.join(key)} at this point of the migrations. "
                "Depend on the migration that creates it, and name a model of another app as 'app_label.Model'."
            )
        model_state, trigger = state.models[key], self._trigger(app_label)
        bases = [base for base in model_state.bases if not _carries(base, trigger.name)]
        if self.adds:
            bases.insert(0, type("VersionTriggerOfMigrations", (TriggerOfMigrations,), {"occ_trigger": trigger}))
        model_state.bases = tuple(bases)
        state.reload_model(*key, delay=True)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        self._execute(app_label, schema_editor, to_state, create=self.adds)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        self._execute(app_label, schema_editor, to_state, create=not self.adds)

    def describe(self) -> str:
        return f"{'Create' if self.adds else 'Drop'} the version trigger of {self.name}"

    @property
    def migration_name_fragment(self) -> str:
        return f"{'' if self.adds else 'remove_'}{self._key('')[1]}_version_trigger"

    def _key(self, app_label: str) -> tuple[str, str]:
        label, _, name = self.name.lower().rpartition(".")
        return label or app_label, name

    def _trigger(self, app_label: str) -> VersionTrigger:
        label, name = self._key(app_label)
        unguarded = self.unguarded if self.unguarded is not None else _unguarded_now(label, name)
        trigger = VersionTrigger(name=self.trigger_name or DEFAULT_NAME, unguarded=unguarded)
        trigger.name %= {"app_label": label, "class": name}
        return trigger

    def _execute(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, state: ProjectState, *, create: bool
    ) -> None:
        model = state.apps.get_model(*self._key(app_label))
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            trigger = self._trigger(app_label)
            render = trigger.create_sql if create else trigger.remove_sql
            schema_editor.execute(render(model, schema_editor), params=None)


class AddVersionTrigger(_TriggerOperation):
    """Create the version trigger of a model whose ``Meta`` one cannot edit; otherwise see ``VersionTrigger``.

    ::

        operations = [AddVersionTrigger("deployment")]

    Running it again replaces the trigger. Later operations keep it up, as they do a ``VersionTrigger``.

    Args:
        name: the model; one of another app as ``"app_label.Model"``.
        trigger_name: by default that of ``VersionTrigger``.
        unguarded: the fields whose writes alone do not count; by default the ``occ_unguarded_fields`` that the model
            has in the code when the migration runs.
    """

    adds = True


class RemoveVersionTrigger(_TriggerOperation):
    """Drop the trigger that ``AddVersionTrigger`` with the same arguments created, if it is there."""

    adds = False


class _KeepTrigger(Operation):
    """Creates the triggers of a model again after an operation on one of its fields.

    MySQL leaves the old name of a renamed column in a trigger, which then refuses every UPDATE; and triggers that list
    columns do not know a new one.
    """

    elidable = True

    def __init__(self, name: str, *, backwards: bool) -> None:
        self.name = name
        self.backwards = backwards

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        pass

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if not self.backwards:
            self._create(app_label, schema_editor, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if self.backwards:
            self._create(app_label, schema_editor, to_state)

    def describe(self) -> str:
        return f"Keep the version trigger of {self.name}"

    def _create(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, state: ProjectState) -> None:
        model_state = state.models.get((app_label, self.name.lower()))
        if model_state is None or not _has_trigger(model_state):
            return
        model = state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if getattr(model, "_occ_version_field", None) not in model._meta.local_concrete_fields:
            return  # the version itself went
        for trigger in version_triggers(model):
            schema_editor.execute(trigger.create_sql(model, schema_editor), params=None)


def keep_triggers(plan: Sequence[tuple[migrations.Migration, bool]] = (), **kwargs: Any) -> None:
    """Follow every field operation that ``migrate`` is about to run by one that keeps triggers right (pre_migrate).

    Django's content types are kept right across ``RenameModel`` in the same way.
    """
    for migration, backwards in plan:
        if any(isinstance(operation, _KeepTrigger) for operation in migration.operations):
            continue  # pre_migrate is sent once per app
        kept: list[Operation] = []
        for operation in migration.operations:
            keep = [_KeepTrigger(name, backwards=backwards) for name in sorted(_models_altered(operation))]
            kept += [*keep, operation] if backwards else [operation, *keep]
        migration.operations = kept  # type: ignore[misc]  # Django itself gives each instance a list of its own


def _models_altered(operation: Operation) -> set[str]:
    if isinstance(operation, FieldOperation):
        return {operation.model_name}
    if isinstance(operation, migrations.AlterOrderWithRespectTo):
        return {operation.name}  # adds or removes a column
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        parts = [*operation.database_operations, *operation.state_operations]
        return {name for part in parts for name in _models_altered(part)}
    return set()


def _has_trigger(state: ModelState) -> bool:
    constraints = state.options.get("constraints", ())
    return any(isinstance(constraint, VersionTrigger) for constraint in constraints) or bool(carried_triggers(state))


def carried_triggers(state: ModelState) -> list[VersionTrigger]:
    """Return the triggers that operations gave to the model of a state."""
    bases = [base for base in state.bases if isinstance(base, type) and issubclass(base, TriggerOfMigrations)]
    return [base.occ_trigger for base in bases]


def added_by_operations() -> dict[tuple[str, str], list[VersionTrigger]]:
    """Return what ``AddVersionTrigger`` operations leave at the end of all migrations, by (app label, model)."""
    loader = MigrationLoader(None)
    operations = (operation for migration in loader.disk_migrations.values() for operation in migration.operations)
    if not any(isinstance(operation, AddVersionTrigger) for operation in operations):
        return {}
    states = loader.project_state().models.items()
    return {key: triggers for key, state in states if (triggers := carried_triggers(state))}


def triggers_of_operations(model: type[models.Model]) -> list[VersionTrigger]:
    """Return the triggers that migrations add to ``model``."""
    return added_by_operations().get((model._meta.app_label, str(model._meta.model_name)), [])


def _carries(base: object, name: str) -> bool:
    return isinstance(base, type) and issubclass(base, TriggerOfMigrations) and base.occ_trigger.name == name


def _unguarded_now(app_label: str, name: str) -> tuple[str, ...]:
    try:
        model: type[models.Model] = installed_apps.get_model(app_label, name)
    except LookupError:
        return ()
    return tuple(getattr(model, "occ_unguarded_fields", ()))

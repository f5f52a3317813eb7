"""The version trigger through what migrations do to its table."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

import tests.triggers.migrations as triggers_migrations
from occ.constraints import VersionTrigger
from occ.fields import VersionField
from occ.operations import AddVersionTrigger, RemoveVersionTrigger
from tests.triggers.models import Gate, Meter, Part
from tests.triggers.scratch import Scratch, create

pytestmark = pytest.mark.django_db(transaction=True)


NAME_TAKEN = "version, and another column takes its name"
RENAMES = [
    pytest.param([migrations.RenameModel("Part", "Item")], "item", "name", id="model"),
    pytest.param([migrations.AlterModelTable("part", "things")], "part", "name", id="table"),
    pytest.param([migrations.RenameField("part", "version", "revision")], "part", "name", id="version"),
    pytest.param([migrations.RenameField("part", "name", "label")], "part", "label", id="column"),
    pytest.param(
        [migrations.AlterField("part", "version", VersionField(db_column="rev"))],
        "part",
        "name",
        id="version db_column",
    ),
    pytest.param(
        [migrations.AlterField("part", "name", models.TextField(default="x", db_column="title"))],
        "part",
        "title",
        id="column and type",
    ),
    pytest.param(
        [
            migrations.RenameField("part", "version", "revision"),
            migrations.AddField("part", "version", models.IntegerField(default=5)),
        ],
        "part",
        "name",
        id=NAME_TAKEN,
    ),
    pytest.param(
        [
            migrations.SeparateDatabaseAndState(
                database_operations=[
                    migrations.RunSQL(
                        "ALTER TABLE scratch_part RENAME COLUMN version TO revision",
                        "ALTER TABLE scratch_part RENAME COLUMN revision TO version",
                    )
                ],
                state_operations=[migrations.RenameField("part", "version", "revision")],
            )
        ],
        "part",
        "name",
        id="version, by SQL",
    ),
    pytest.param(
        [migrations.RenameModel("Part", "Item"), migrations.RenameField("Item", "version", "revision")],
        "item",
        "name",
        id="model and version",
    ),
]
CHANGES = [
    pytest.param([migrations.AlterField("part", "stock", models.BigIntegerField(null=True))], id="type"),
    pytest.param([migrations.AddField("part", "shelf", models.IntegerField(default=0))], id="new column"),
    pytest.param([migrations.AddField("part", "shelf", models.IntegerField(null=True))], id="new nullable column"),
    pytest.param([migrations.RemoveField("part", "stock")], id="no column"),
    pytest.param([migrations.AlterUniqueTogether("part", {("name", "stock")})], id="unique"),
    pytest.param([migrations.AddIndex("part", models.Index(fields=["name"], name="scratch_name"))], id="index"),
]


@pytest.mark.parametrize("unguarded", [(), ("seen",)], ids=["all guarded", "one unguarded"])
@pytest.mark.parametrize(("operations", "model", "column"), RENAMES)
def test_the_trigger_survives_renames(
    scratch: Scratch, operations: list[Operation], model: str, column: str, unguarded: tuple[str, ...]
) -> None:
    scratch.migrate(create(unguarded=unguarded))
    scratch.insert()
    scratch.migrate(*operations)

    scratch.write(model, **{column: "a"})
    scratch.write(model, **{column: "b"})
    scratch.write(model, seen=1)

    assert scratch.versions(model) == [3 if unguarded else 4]
    scratch.unapply()
    scratch.write(name="c")
    assert scratch.versions() == [4 if unguarded else 5]


@pytest.mark.parametrize(("operations", "model", "column"), RENAMES)
def test_the_trigger_survives_renames_in_the_migration_that_creates_it(
    scratch: Scratch, operations: list[Operation], model: str, column: str
) -> None:
    scratch.migrate(create(unguarded=("seen",)), *operations)
    scratch.insert(model)

    scratch.write(model, **{column: "a"})
    scratch.write(model, seen=1)

    assert scratch.versions(model) == [2]


@pytest.mark.skipif("connection.vendor == 'mysql'", reason="MySQL leaves old names in triggers; migrate renews them")
@pytest.mark.parametrize(("operations", "model", "column"), [case for case in RENAMES if case.id != NAME_TAKEN])
def test_the_trigger_survives_renames_that_the_migrate_command_does_not_run(
    scratch: Scratch, operations: list[Operation], model: str, column: str
) -> None:
    scratch.migrate(create(), kept=False)
    scratch.insert()
    scratch.migrate(*operations, kept=False)

    scratch.write(model, **{column: "a"})

    assert scratch.versions(model) == [2]


@pytest.mark.parametrize("unguarded", [(), ("seen",)], ids=["all guarded", "one unguarded"])
@pytest.mark.parametrize("operations", CHANGES)
def test_the_trigger_survives_changes_of_the_table(
    scratch: Scratch, operations: list[Operation], unguarded: tuple[str, ...]
) -> None:
    scratch.migrate(create(unguarded=unguarded))
    scratch.insert()
    scratch.migrate(*operations)

    scratch.write(name="a")
    scratch.write(seen=1)

    assert scratch.versions() == [2 if unguarded else 3]
    scratch.unapply()
    scratch.write(name="b")
    assert scratch.versions() == [3 if unguarded else 4]


@pytest.mark.parametrize("operations", CHANGES)
def test_the_trigger_of_an_operation_survives_changes_of_the_table(
    scratch: Scratch, operations: list[Operation]
) -> None:
    scratch.migrate(create(trigger=False))
    scratch.insert()
    scratch.migrate(AddVersionTrigger("part", unguarded=["seen"]))
    scratch.migrate(*operations)

    scratch.write(name="a")
    scratch.write(seen=1)

    assert scratch.versions() == [2]


@pytest.mark.parametrize(("operations", "model", "column"), RENAMES)
def test_the_trigger_of_an_operation_survives_renames(
    scratch: Scratch, operations: list[Operation], model: str, column: str
) -> None:
    scratch.migrate(create(trigger=False))
    scratch.insert()
    scratch.migrate(AddVersionTrigger("part", unguarded=["seen"]))
    scratch.migrate(*operations)

    scratch.write(model, **{column: "a"})
    scratch.write(model, seen=1)

    assert scratch.versions(model) == [2]
    scratch.unapply()
    scratch.unapply()
    scratch.write(name="b")
    assert scratch.versions() == [2]


@pytest.mark.parametrize("column", [models.IntegerField(default=0), models.IntegerField(null=True)])
def test_a_column_added_later_counts_where_others_do_not(
    scratch: Scratch, column: models.IntegerField[Any, Any]
) -> None:
    scratch.migrate(create(unguarded=("seen",)))
    scratch.insert()
    scratch.migrate(migrations.AddField("part", "shelf", column))

    scratch.write(shelf=3, seen=4)

    assert scratch.versions() == [2]


def test_a_trigger_added_to_a_table_with_rows_goes_and_comes_with_its_migration(scratch: Scratch) -> None:
    scratch.migrate(create(trigger=False))
    scratch.insert()
    scratch.write(name="a")
    assert scratch.versions() == [1]

    scratch.migrate(migrations.AddConstraint("part", VersionTrigger(name="scratch_part_version")))
    scratch.write(name="b")
    assert scratch.versions() == [2]

    scratch.unapply()
    scratch.write(name="c")
    assert scratch.versions() == [2]

    scratch.migrate(migrations.AddConstraint("part", VersionTrigger(name="scratch_part_version")))
    scratch.migrate(migrations.RemoveConstraint("part", "scratch_part_version"))
    scratch.write(name="d")
    assert scratch.versions() == [2]


def test_the_operation_can_run_again_and_be_undone(scratch: Scratch) -> None:
    scratch.migrate(create(trigger=False))
    scratch.insert()
    scratch.migrate(AddVersionTrigger("part"))
    scratch.migrate(AddVersionTrigger("part", unguarded=["seen"]))

    scratch.write(name="a")
    scratch.write(seen=1)
    assert scratch.versions() == [2]

    scratch.migrate(RemoveVersionTrigger("part"))
    scratch.migrate(RemoveVersionTrigger("part"))
    scratch.write(name="b")
    assert scratch.versions() == [2]

    scratch.unapply()
    scratch.write(name="c")
    assert scratch.versions() == [3]


def test_the_constraint_takes_over_from_the_operation(scratch: Scratch) -> None:
    scratch.migrate(create(trigger=False), AddVersionTrigger("part"))
    scratch.insert()
    scratch.migrate(migrations.AddConstraint("part", VersionTrigger(name="scratch_part_version")))
    scratch.migrate(migrations.AlterField("part", "stock", models.BigIntegerField(default=0)))

    scratch.write(name="a")

    assert scratch.versions() == [2]


def test_two_triggers_on_a_table_count_once(scratch: Scratch) -> None:
    scratch.migrate(create(), AddVersionTrigger("part", trigger_name="another"))
    scratch.insert()

    scratch.write(name="a")

    assert scratch.versions() == [2]


def test_the_operation_serves_models_of_other_apps(scratch: Scratch) -> None:
    scratch.migrate(create(trigger=False))
    scratch.insert()
    with connection.schema_editor() as editor:
        operation = AddVersionTrigger("scratch.Part")
        operation.state_forwards("elsewhere", scratch.state)
        operation.database_forwards("elsewhere", editor, scratch.state, scratch.state)

    scratch.write(name="a")

    assert scratch.versions() == [2]


def test_the_operation_names_a_model_that_is_not_there(scratch: Scratch) -> None:
    with pytest.raises(ValueError) as error:
        AddVersionTrigger("part").state_forwards("scratch", scratch.state)

    assert str(error.value) == (
        "AddVersionTrigger('part') finds no model scratch.part at this point of the migrations. Depend on the "
        "migration that creates it, and name a model of another app as 'app_label.Model'."
    )


def test_the_historical_models_of_a_data_migration_count_once(scratch: Scratch) -> None:
    scratch.migrate(create())
    scratch.insert()

    def edit(apps: Any, editor: Any) -> None:
        part = apps.get_model("scratch", "part").objects.get()
        part.name = "a"
        part.save()

    scratch.migrate(migrations.RunPython(edit, migrations.RunPython.noop))

    assert scratch.versions() == [2]


def test_makemigrations_finds_nothing_to_do() -> None:
    call_command("makemigrations", "triggers", check=True, dry_run=True, stdout=StringIO())


def changes(before: list[ModelState], after: list[ModelState]) -> list[Operation]:
    states = ProjectState(), ProjectState()
    for state, found in zip(states, (before, after), strict=True):
        for model in found:
            state.add_model(model)
    detected = MigrationAutodetector(*states)._detect_changes()
    return [operation for migration in detected.get("triggers", []) for operation in migration.operations]


def without_trigger(model: type[models.Model]) -> ModelState:
    state = ModelState.from_model(model)
    state.options["constraints"] = []
    return state


def test_makemigrations_adds_a_trigger_that_was_declared() -> None:
    states = [ModelState.from_model(model) for model in (Part, Meter)]

    operations = changes([states[0], without_trigger(Meter)], states)

    assert [operation.deconstruct() for operation in operations] == [
        (
            "AddConstraint",
            [],
            {
                "model_name": "meter",
                "constraint": VersionTrigger(name="triggers_meter_version", unguarded=("readings", "seen_by")),
            },
        )
    ]


def test_makemigrations_follows_the_unguarded_fields() -> None:
    part, meter = ModelState.from_model(Part), ModelState.from_model(Meter)
    changed = meter.clone()
    changed.options["constraints"] = [VersionTrigger(name="triggers_meter_version", unguarded=["readings"])]

    operations = changes([part, meter], [part, changed])

    assert [type(operation) for operation in operations] == [migrations.RemoveConstraint, migrations.AddConstraint]


def test_the_operation_is_unseen_by_makemigrations() -> None:
    state = ProjectState()
    state.add_model(ModelState.from_model(Gate))
    AddVersionTrigger("gate").state_forwards("triggers", state)

    detected = MigrationAutodetector(state, ProjectState.from_apps(_only(Gate)))._detect_changes()

    assert detected == {}


def _only(model: type[models.Model]) -> Any:
    state = ProjectState()
    state.add_model(ModelState.from_model(model))
    return state.apps


def test_the_app_can_go_back_to_nothing_and_forth() -> None:
    call_command("migrate", "triggers", "zero", verbosity=0)
    call_command("migrate", "triggers", verbosity=0)
    part = Part.objects.create(name="bolt")

    with connection.cursor() as cursor:
        cursor.execute("UPDATE triggers_part SET stock = 2")

    part.refresh_from_db()
    assert part.version == 2


THIRD = """
from django.db import migrations, models

def write(name):
    def run(apps, schema_editor):
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("UPDATE triggers_gate SET name = %s", [name])

    return run

class Migration(migrations.Migration):
    dependencies = [("triggers", "0002_gate_version_trigger")]
    operations = [
        migrations.RenameField("gate", "version", "revision"),
        migrations.RunPython(write("there"), write("back")),
    ]
"""


def test_the_migrate_command_keeps_triggers_right_there_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    with_rename = tmp_path / "triggers_and_a_rename"
    shutil.copytree(Path(triggers_migrations.__file__).parent, with_rename)
    (with_rename / "0003_rename.py").write_text(THIRD)
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"triggers": "triggers_and_a_rename"}
    gate = Gate.objects.create(name="a")

    call_command("migrate", "triggers", verbosity=0)
    call_command("migrate", "triggers", "0002", verbosity=0)

    gate.refresh_from_db()
    assert (gate.name, gate.version) == ("back", 3)


def test_the_sql_can_be_had_for_review() -> None:
    out = StringIO()

    call_command("sqlmigrate", "triggers", "0001", stdout=out)
    call_command("sqlmigrate", "triggers", "0002", stdout=out)

    for trigger in ("triggers_part_version", "triggers_meter_version", "slot's slot trigger", "triggers_gate_version"):
        assert f"TRIGGER {connection.ops.quote_name(trigger)}" in out.getvalue()

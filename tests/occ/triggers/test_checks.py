"""What the system checks say about version triggers: declared wrongly, needed, missing."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.checks import CheckMessage, Error, Warning
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import isolate_apps

from occ.checks import check_version_triggers
from occ.constraints import VersionTrigger
from occ.models import OptimisticLockModel
from tests.triggers.models import Gate, Meter, Part
from tests.triggers.scratch import Scratch, create

DB_SET_NULL = getattr(models, "DB_SET_NULL", None)
DB_SET_DEFAULT = getattr(models, "DB_SET_DEFAULT", None)
needs_django_61 = pytest.mark.skipif(DB_SET_NULL is None, reason="ON DELETE in the database is new in Django 6.1")
no_mysql = pytest.mark.skipif("connection.vendor == 'mysql'", reason="MySQL runs no triggers for foreign-key actions")


@pytest.fixture
def isolated() -> Iterator[None]:
    with isolate_apps("tests.triggers"):
        yield


def model(*bases: type, constraints: list[Any], name: str = "Thing", **attributes: Any) -> type[models.Model]:
    meta = type("Meta", (), {"app_label": "triggers", "constraints": constraints})
    return type(name, bases or (OptimisticLockModel,), {"__module__": "tests.triggers", "Meta": meta, **attributes})


def about_triggers(found: type[models.Model]) -> list[CheckMessage]:
    return [message for message in found.check() if message.id in ("occ.E020", "occ.E021")]


@pytest.mark.usefixtures("isolated")
def test_a_trigger_on_the_child_of_a_hierarchy_is_an_error() -> None:
    parent = model(constraints=[], name="Parent")
    child = model(parent, constraints=[VersionTrigger()], name="Child")

    assert about_triggers(parent) == []
    assert about_triggers(child) == [
        Error(
            "triggers.Child has a VersionTrigger, but its table has no version column.",
            hint="Declare the trigger on Parent, whose table has the version column.",
            obj=child,
            id="occ.E020",
        )
    ]


@pytest.mark.usefixtures("isolated")
def test_an_abstract_declaration_names_each_trigger_after_its_model() -> None:
    meta = type("Meta", (OptimisticLockModel.Meta,), {"abstract": True, "constraints": [VersionTrigger()]})
    base = type("Base", (OptimisticLockModel,), {"__module__": "tests.triggers", "Meta": meta})
    children = [
        type(name, (base,), {"__module__": "tests.triggers", "occ_unguarded_fields": ("version",)})
        for name in ("A", "B")
    ]

    found = [constraint.deconstruct() for child in children for constraint in child._meta.constraints]

    assert found == [
        ("occ.constraints.VersionTrigger", (), {"name": "triggers_a_version", "unguarded": ["version"]}),
        ("occ.constraints.VersionTrigger", (), {"name": "triggers_b_version", "unguarded": ["version"]}),
    ]


@needs_django_61
@no_mysql
@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("action", ["DB_SET_NULL", "DB_SET_DEFAULT"])
def test_rows_changed_by_the_database_need_the_trigger(action: str) -> None:
    key = models.ForeignKey(Part, getattr(models, action), null=True, db_default=None, related_name="+")
    thing = model(constraints=[], part=key)

    assert about_triggers(thing) == [
        Error(
            f"on_delete={action} of Thing.part has the database change rows without moving their version: no trigger "
            "counts that.",
            hint=(
                "Add VersionTrigger() (from occ.constraints) to Meta.constraints or AddVersionTrigger (from "
                "occ.operations) to a migration, or use "
                f"{action.removeprefix('DB_')}, by which Django writes the rows."
            ),
            obj=thing._meta.get_field("part"),
            id="occ.E021",
        )
    ]


@needs_django_61
@no_mysql
@pytest.mark.usefixtures("isolated")
def test_rows_changed_by_the_database_are_in_order_under_the_trigger() -> None:
    key = models.ForeignKey(Part, DB_SET_NULL, null=True, related_name="+")

    assert about_triggers(model(constraints=[VersionTrigger()], part=key)) == []


@needs_django_61
@no_mysql
@pytest.mark.usefixtures("isolated")
def test_a_trigger_that_a_migration_adds_is_known() -> None:
    key = models.ForeignKey(Part, DB_SET_NULL, null=True, related_name="+")

    assert about_triggers(model(constraints=[], name="Gate", part=key)) == []


@needs_django_61
@pytest.mark.usefixtures("isolated")
def test_an_unguarded_column_may_be_changed_by_the_database() -> None:
    key = models.ForeignKey(Part, DB_SET_NULL, null=True, related_name="+")

    assert about_triggers(model(constraints=[], part=key, occ_unguarded_fields=("part",))) == []


@needs_django_61
@no_mysql
@pytest.mark.usefixtures("isolated")
def test_no_trigger_helps_where_the_database_changes_the_table_of_a_child() -> None:
    parent = model(constraints=[VersionTrigger()], name="Parent")
    child = model(parent, constraints=[], name="Child", part=models.ForeignKey(Part, DB_SET_NULL, null=True))

    assert [message.msg for message in about_triggers(child)] == [
        "on_delete=DB_SET_NULL of Child.part has the database change rows without moving their version: the version is "
        "in another table."
    ]


@needs_django_61
@pytest.mark.skipif("connection.vendor != 'mysql'", reason="is about MySQL and MariaDB")
@pytest.mark.usefixtures("isolated")
def test_no_trigger_helps_on_mysql() -> None:
    key = models.ForeignKey(Part, DB_SET_NULL, null=True, related_name="+")
    thing = model(constraints=[VersionTrigger()], part=key)

    assert about_triggers(thing) == [
        Error(
            "on_delete=DB_SET_NULL of Thing.part has the database change rows without moving their version: MySQL and "
            "MariaDB run no trigger for that.",
            hint="Use SET_NULL, by which Django writes the rows.",
            obj=thing._meta.get_field("part"),
            id="occ.E021",
        )
    ]


@needs_django_61
@no_mysql
@pytest.mark.django_db(transaction=True)
def test_a_row_changed_by_the_database_counts(scratch: Scratch) -> None:
    scratch.migrate(
        migrations.CreateModel("Box", [("id", models.BigAutoField(primary_key=True))]),
        create(box=models.ForeignKey("scratch.Box", DB_SET_NULL, null=True)),
    )
    box = scratch.model("box").objects.create()
    scratch.insert(box_id=box.pk)

    box.delete()

    assert scratch.versions() == [2]
    assert scratch.model().objects.get().box_id is None


def drop_trigger(of: type[models.Model], name: str) -> None:
    on = f" ON {of._meta.db_table}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}{on}")


def missing(found: type[models.Model], name: str) -> Warning:
    return Warning(
        f"The version trigger {name!r} of {found._meta.label} is missing in the database 'default': writes by others "
        "than Django are not counted.",
        hint=(
            "Make and run its migration (makemigrations, migrate). If that has been done, create the trigger again by "
            f"a migration with occ.operations.AddVersionTrigger({found.__name__!r})."
        ),
        obj=found,
        id="occ.W020",
    )


@pytest.fixture
def restored(transactional_db: None) -> Iterator[None]:
    """Create the triggers of the app anew after the test."""
    yield
    call_command("migrate", "triggers", "zero", verbosity=0)
    call_command("migrate", "triggers", verbosity=0)


@pytest.mark.usefixtures("restored")
def test_a_missing_trigger_is_reported() -> None:
    assert check_version_triggers(databases=["default"]) == []

    drop_trigger(Meter, "triggers_meter_version")
    drop_trigger(Gate, "triggers_gate_version")

    assert check_version_triggers(databases=["default"]) == [
        missing(Meter, "triggers_meter_version"),
        missing(Gate, "triggers_gate_version"),
    ]


@pytest.mark.usefixtures("restored")
def test_a_missing_trigger_is_reported_by_check_and_does_not_stop_migrate() -> None:
    drop_trigger(Meter, "triggers_meter_version")
    output = StringIO()

    call_command("check", databases=["default"], stderr=output)
    call_command("migrate", verbosity=0, stderr=output, skip_checks=False)

    assert output.getvalue().count("(occ.W020) The version trigger 'triggers_meter_version' of triggers.Meter") == 2


@pytest.mark.usefixtures("restored")
def test_a_trigger_that_waits_for_its_migration_is_not_reported() -> None:
    drop_trigger(Meter, "triggers_meter_version")
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("triggers", "0002_gate_version_trigger")

    found = check_version_triggers(databases=["default"])

    recorder.record_applied("triggers", "0002_gate_version_trigger")
    assert found == []


@pytest.mark.django_db
def test_without_databases_the_check_looks_at_none() -> None:
    assert check_version_triggers(databases=None) == []


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="only PostgreSQL disables triggers")
@pytest.mark.usefixtures("restored")
def test_a_disabled_trigger_is_reported() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE triggers_part DISABLE TRIGGER USER")

    found = check_version_triggers(databases=["default"])

    assert [message.msg for message in found] == [
        "The version trigger 'triggers_part_version' of triggers.Part is disabled in the database 'default': writes by "
        "others than Django are not counted."
    ]

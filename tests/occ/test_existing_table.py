"""Tables that were there before: the column comes, or is taken over, without copying them."""

from __future__ import annotations

import pytest
from django.db import connection, migrations, models

from benchmarks.adopt import adopt, storage
from occ.exceptions import Conflict
from occ.fields import VersionField
from occ.models import OptimisticLockModel
from tests.triggers.scratch import Scratch

pytestmark = pytest.mark.django_db(transaction=True)


def table_with(field: models.Field[int, int], **options: str) -> Scratch:
    app = Scratch()
    app.migrate(
        migrations.CreateModel(
            "Part", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField()), ("rev", field)]
        )
    )
    return app


def insert(app: Scratch, **columns: object) -> None:
    names, values = ", ".join(columns), list(columns.values())
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO scratch_part ({names}) VALUES ({', '.join(['%s'] * len(values))})", values)


def guarded(app: Scratch) -> type[OptimisticLockModel]:
    """Return the model as the project's code has it now."""
    meta = type("Meta", (), {"app_label": "scratch", "db_table": "scratch_part", "apps": app.state.apps})
    fields = {
        "name": models.TextField(),
        "version": VersionField(db_column="rev"),
        "id": models.BigAutoField(primary_key=True),
    }
    return type("Part", (OptimisticLockModel,), {"__module__": __name__, "Meta": meta, **fields})


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite copies a table for every change of its columns")
def test_column_and_trigger_are_added_without_copying_the_table() -> None:
    steps = list(adopt(1000))

    assert [(step.name, step.copied) for step in steps] == [("add the column", False), ("add the trigger", False)]


def test_code_that_does_not_know_the_new_column_goes_on_inserting() -> None:
    app = Scratch()
    app.migrate(
        migrations.CreateModel("Part", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())])
    )
    insert(app, name="before")
    app.migrate(migrations.AddField("part", "rev", VersionField()))

    insert(app, name="after")

    assert app.versions() == [1, 1]
    app.drop_tables()


@pytest.mark.parametrize("column", [models.BigIntegerField(default=0), models.PositiveIntegerField(default=0)])
def test_the_version_column_of_another_package_is_taken_over(column: models.Field[int, int]) -> None:
    app = table_with(column)
    insert(app, name="a", rev=7)
    insert(app, name="b", rev=0)
    stored = storage("scratch_part")
    app.migrate(
        migrations.RenameField("part", "rev", "version"),
        migrations.AlterField("part", "version", VersionField(db_column="rev")),
        migrations.RunSQL("UPDATE scratch_part SET rev = 1 WHERE rev = 0", migrations.RunSQL.noop),
    )

    copied = storage("scratch_part") != stored
    insert(app, name="c")

    assert app.versions() == [7, 1, 1]
    if isinstance(column, models.BigIntegerField):
        assert not copied
    first, again = (guarded(app).objects.get(name="a") for _ in range(2))
    first.save()
    with pytest.raises(Conflict):
        again.save()
    app.drop_tables()


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite copies a table for every change of its columns")
def test_a_narrow_version_column_can_be_kept_without_copying_the_table() -> None:
    app = table_with(models.PositiveIntegerField(default=0))
    insert(app, name="a", rev=7)
    stored = storage("scratch_part")

    app.migrate(
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL("ALTER TABLE scratch_part ALTER COLUMN rev SET DEFAULT 1")],
            state_operations=[
                migrations.RenameField("part", "rev", "version"),
                migrations.AlterField("part", "version", VersionField(db_column="rev")),
            ],
        )
    )
    insert(app, name="b")
    part = guarded(app).objects.get(name="a")
    part.save()

    assert storage("scratch_part") == stored
    assert app.versions() == [8, 1]
    app.drop_tables()

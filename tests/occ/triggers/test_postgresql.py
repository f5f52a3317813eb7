"""What only PostgreSQL has: schemas, functions, partitions, types that do not compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, migrations

from occ.constraints import VersionTrigger
from occ.operations import AddVersionTrigger, RemoveVersionTrigger
from occ.triggers import Trigger, create_statements, find_fault
from tests.triggers.scratch import Scratch, create

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="is about PostgreSQL"),
]


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def rows(sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def functions(schema: str) -> list[tuple[object, ...]]:
    return rows(
        "SELECT proname FROM pg_proc WHERE proname LIKE 'occ\\_move\\_%' "
        f"AND pronamespace = '{schema}'::regnamespace ORDER BY 1"
    )


@pytest.fixture
def schemas() -> Iterator[None]:
    run("CREATE SCHEMA occ_side; CREATE SCHEMA occ_tenant")
    yield
    run("SET search_path TO DEFAULT; DROP SCHEMA occ_side CASCADE; DROP SCHEMA occ_tenant CASCADE")


@pytest.mark.usefixtures("schemas")
def test_a_table_in_another_schema_has_its_function_beside_it() -> None:
    app = Scratch()
    operation = create(trigger=False)
    operation.options["db_table"] = 'occ_side"."part'  # type: ignore[attr-defined]
    app.migrate(operation, AddVersionTrigger("part"))
    app.insert()

    app.write(name="a")

    assert app.versions() == [2]
    assert functions("occ_side") == [("occ_move_version",)]
    trigger = VersionTrigger(name="scratch_part_version").trigger(app.model(), connection)
    assert find_fault(trigger, connection) is None
    app.migrate(RemoveVersionTrigger("part"))
    assert functions("occ_side") == []
    assert find_fault(trigger, connection) == "is missing"


@pytest.mark.usefixtures("schemas")
def test_each_schema_on_the_search_path_has_tables_and_triggers_of_its_own() -> None:
    tenants = {}
    for schema in ("occ_side", "occ_tenant"):
        run(f"SET search_path TO {schema}, public")
        tenants[schema] = Scratch()
        tenants[schema].migrate(create())
        tenants[schema].insert()
    run("DROP SCHEMA occ_side CASCADE; CREATE SCHEMA occ_side")

    tenants["occ_tenant"].write(name="a")

    assert tenants["occ_tenant"].versions() == [2]
    assert functions("occ_tenant") == [("occ_move_version",)]


def test_the_function_goes_with_the_last_trigger_that_needs_it(scratch: Scratch) -> None:
    def renamed(name: str) -> list[migrations.operations.base.Operation]:
        return [create(name, trigger=False), migrations.RenameField(name, "version", "scratch_version")]

    scratch.migrate(*renamed("Part"), *renamed("Tool"))
    scratch.migrate(AddVersionTrigger("part"), AddVersionTrigger("tool"))

    scratch.migrate(RemoveVersionTrigger("part"))
    assert ("occ_move_scratch_version",) in functions("public")

    scratch.migrate(RemoveVersionTrigger("tool"))
    assert ("occ_move_scratch_version",) not in functions("public")


def test_partitions_and_columns_without_equality_are_counted_even_after_a_rename() -> None:
    run(
        "CREATE TABLE occ_log (id int, day int, note json, seen json, version bigint NOT NULL DEFAULT 1) "
        "PARTITION BY RANGE (day); "
        "CREATE TABLE occ_log_1 PARTITION OF occ_log FOR VALUES FROM (0) TO (100)"
    )
    trigger = Trigger(name="occ_log_t", table="occ_log", version="version", keys=("id", "day"), ignored=("seen",))
    for statement in create_statements(trigger, connection):
        run(str(statement))
    run("INSERT INTO occ_log (id, day) VALUES (1, 1)")

    run("UPDATE occ_log SET note = '{}'; UPDATE occ_log_1 SET seen = '{}'")
    run("ALTER TABLE occ_log RENAME COLUMN version TO revision; ALTER TABLE occ_log RENAME COLUMN day TO on_day")
    run("UPDATE occ_log SET note = '[1]'; UPDATE occ_log_1 SET note = '[2]'; UPDATE occ_log SET seen = '[2]'")

    assert rows("SELECT revision FROM occ_log") == [(4,)]
    run("DROP TABLE occ_log")

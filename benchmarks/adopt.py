"""What it takes to give an existing table its version and trigger: ``python -m benchmarks.adopt [--rows 1000000]``.

Runs the migrations that a project would run, on a table with rows in it that somebody keeps updating meanwhile, and
prints for each how long it took, how long the slowest of those updates waited, and whether the table was written anew.
The database is the one of DATABASE_URL (a test database is created on it and dropped again), by default SQLite, which
always copies the table and locks the database for it. Elsewhere a copied table is a failure.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.migrations.operations.base import Operation
    from django.db.migrations.state import ProjectState

TABLE = "adopted_item"
# The file of a PostgreSQL table and the InnoDB id of a MariaDB or MySQL one change when the table is written anew.
STORAGE = {
    "postgresql": "SELECT pg_relation_filenode(%s::regclass)",
    "mariadb": "SELECT table_id FROM information_schema.innodb_sys_tables WHERE name = CONCAT(DATABASE(), '/', %s)",
    "mysql": "SELECT table_id FROM information_schema.innodb_tables WHERE name = CONCAT(DATABASE(), '/', %s)",
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One migration: seconds it took, seconds that the slowest other write waited, whether the table was copied."""

    name: str
    seconds: float
    slowest_write: float
    copied: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        print(f"{connection.display_name}, {options.rows:,} rows")
        steps = list(adopt(options.rows))
    finally:
        connection.creation.destroy_test_db("", verbosity=0)
    for step in steps:
        copied = "copied" if step.copied else "not copied"
        print(
            f"{step.name:20} {step.seconds:8.3f} s   slowest write meanwhile {step.slowest_write * 1000:7.1f} ms   "
            f"table {copied}"
        )
    return int(connection.vendor != "sqlite" and any(step.copied for step in steps))


def adopt(rows: int) -> Iterator[Step]:
    """Create the table as it was before, fill it, and yield each migration that makes it optimistic-locked."""
    from django.db import connection, migrations, models
    from django.db.migrations.state import ProjectState

    from occ.constraints import VersionTrigger
    from occ.fields import VersionField

    before = migrations.CreateModel(
        "Item",
        [
            ("id", models.BigAutoField(primary_key=True)),
            ("name", models.CharField(max_length=100)),
            ("stock", models.IntegerField()),
        ],
    )
    state = _run(before, ProjectState())
    try:
        _fill(rows)
        for name, operation in (
            ("add the column", migrations.AddField("item", "version", VersionField())),
            ("add the trigger", migrations.AddConstraint("item", VersionTrigger(name="adopted_item_version"))),
        ):
            stored = storage(TABLE)
            with _writes(rows) as waits:
                started = time.perf_counter()
                state = _run(operation, state)
                seconds = time.perf_counter() - started
            copied = connection.vendor == "sqlite" or storage(TABLE) != stored
            yield Step(name=name, seconds=seconds, slowest_write=max(waits, default=seconds), copied=copied)
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(state.apps.get_model("adopted", "item"))


def _run(operation: Operation, state: ProjectState) -> ProjectState:
    from django.db import connection, migrations

    migration = migrations.Migration("made_up", "adopted")
    migration.operations = [operation]
    with connection.schema_editor() as editor:
        return migration.apply(state, editor)


def _fill(rows: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} (name, stock) VALUES ('an item of some kind', 1)")  # noqa: S608
        written = 1
        while written < rows:
            more = min(written, rows - written)
            cursor.execute(f"INSERT INTO {TABLE} (name, stock) SELECT name, stock FROM {TABLE} LIMIT {more}")  # noqa: S608
            written += more
        if connection.vendor == "postgresql":
            cursor.execute(f"VACUUM ANALYZE {TABLE}")


def storage(table: str) -> Any:
    """Return what identifies the stored table: it is another one once the table was copied. None on SQLite."""
    from django.db import connection

    dialect = connection.vendor
    if dialect == "sqlite":
        return None
    if dialect == "mysql" and connection.mysql_is_mariadb:  # type: ignore[attr-defined]
        dialect = "mariadb"
    with connection.cursor() as cursor:
        cursor.execute(STORAGE[dialect], [table])
        return cursor.fetchone()


@contextmanager
def _writes(rows: int) -> Iterator[list[float]]:
    """Have another session write one row after the other for the time of the block; yields how long each took."""
    from django.db import connection

    waits: list[float] = []
    if connection.vendor == "sqlite":
        yield waits
        return
    started, done = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with connection.cursor() as cursor:
                number = 0
                while not done.is_set():
                    number = number % rows + 1
                    asked = time.perf_counter()
                    cursor.execute(f"UPDATE {TABLE} SET stock = stock + 1 WHERE id = %s", [number])  # noqa: S608
                    waits.append(time.perf_counter() - asked)
                    started.set()
        finally:
            started.set()
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    started.wait()
    try:
        yield waits
    finally:
        done.set()
        writer.join()


if __name__ == "__main__":
    sys.exit(main())

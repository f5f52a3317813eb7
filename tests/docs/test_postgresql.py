"""The statements of the how-to about PostgreSQL, run there."""

import re

import pytest
from django.db import connection

from tests.docs.projects import ROOT
from tests.library.models import Book

PAGE = (ROOT / "docs" / "how-to" / "postgresql.md").read_text()
SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = Book._meta.db_table

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def on_postgresql(db: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about PostgreSQL")


def storage_parameters() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE oid = %s::regclass", [TABLE])
        return cursor.fetchone()[0] or []


def test_its_query_tells_how_many_updates_were_heap_only() -> None:
    query = SQL.findall(PAGE)[0].replace("shop_product", TABLE)

    with connection.cursor() as cursor:
        cursor.execute(query)
        columns = [column.name for column in cursor.description]
        tables = sorted(row[0] for row in cursor.fetchall())

    assert columns == ["relname", "n_tup_upd", "n_tup_hot_upd", "hot_percent"]
    assert tables == sorted([TABLE, "reconcilers_workitem"])


def test_its_migration_sets_the_fillfactor_and_takes_it_back() -> None:
    forwards, backwards = re.findall(r'"(ALTER TABLE shop_product [^"]*)"', PAGE)

    with connection.cursor() as cursor:
        cursor.execute(forwards.replace("shop_product", TABLE))
        during = storage_parameters()
        cursor.execute(backwards.replace("shop_product", TABLE))

    assert during == ["fillfactor=80"]
    assert storage_parameters() == []


def test_its_vacuum_settings_are_ones_that_there_are() -> None:
    with connection.cursor() as cursor:
        cursor.execute(SQL.findall(PAGE)[1].replace("shop_product", TABLE))

    assert storage_parameters() == ["autovacuum_vacuum_scale_factor=0.02", "autovacuum_vacuum_threshold=200"]

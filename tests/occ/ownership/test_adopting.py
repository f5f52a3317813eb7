"""Adopting ownership on a table that is there: one column with a default, no table is rewritten."""

import pytest
from django.db import connection, models
from django.test.utils import isolate_apps

from occ.fields import VersionField
from occ.ownership import ManagedFields

pytestmark = pytest.mark.django_db(transaction=True)


@isolate_apps("tests.library")
def test_the_column_is_added_without_rewriting_the_table_and_rows_start_without_owners():
    class Plain(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "library"
            db_table = "adopting"

    class Owned(models.Model):  # noqa: DJ008
        version = VersionField()
        managed_fields = ManagedFields()

        class Meta:
            app_label = "library"
            db_table = "adopting"

    with connection.schema_editor() as editor:
        editor.create_model(Plain)
    try:
        Plain.objects.create()
        before = storage()
        with connection.schema_editor() as editor:
            editor.add_field(Plain, Owned._meta.get_field("version"))
        with connection.schema_editor() as editor:
            editor.add_field(Plain, Owned._meta.get_field("managed_fields"))

        assert Owned.objects.values_list("managed_fields", flat=True).get() == {}
        assert storage() == before
        with connection.cursor() as cursor:  # a writer of before the migration was rolled out
            cursor.execute(
                f"INSERT INTO adopting {'DEFAULT VALUES' if connection.vendor != 'mysql' else '() VALUES ()'}"
            )
        assert list(Owned.objects.values_list("managed_fields", flat=True)) == [{}, {}]
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Plain)


def storage() -> object:
    """Return what changes when the server rewrites the table; SQLite's is copied by Django for most changes."""
    query = {
        "postgresql": "SELECT pg_relation_filenode('adopting')",
        "mysql": "SELECT SPACE FROM information_schema.INNODB_SYS_TABLES WHERE NAME LIKE '%%/adopting'",
    }.get(connection.vendor)
    if query is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()

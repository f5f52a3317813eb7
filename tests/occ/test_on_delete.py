"""SET_DEFAULT and SET(callable): rows move their version, and nothing else differs from Django."""

import pytest
from django.db import connection, models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.state import ModelState, ProjectState
from django.db.migrations.writer import MigrationWriter
from django.test.utils import CaptureQueriesContext, isolate_apps

from tests.library.models import Poster, Tag, some_tag

pytestmark = pytest.mark.django_db


def statements_of_delete(tag: Tag) -> list[str]:
    """Return the verb of each statement about posters that deleting ``tag`` takes."""
    with CaptureQueriesContext(connection) as queries:
        tag.delete()
    return [query["sql"].split()[0] for query in queries if "library_poster" in query["sql"]]


def test_a_deletion_that_no_row_refers_to_runs_what_django_would():
    tag = Tag.objects.create(name="unused")

    statements = statements_of_delete(tag)

    assert statements == ["SELECT", "SELECT", "UPDATE"]  # SET_DEFAULT and SET(callable) find no row; SET_NULL
    assert not Tag.objects.exists(), "SET's callable ran, though there is no row to give its value to"


@pytest.mark.parametrize("field", ["defaulted", "called"])
def test_rows_that_are_written_take_no_more_statements_than_djangos(field):
    tag = Tag.objects.create(name="old")
    Poster.objects.create(**{field: tag})

    assert statements_of_delete(tag) == ["SELECT", "SELECT", "UPDATE", "UPDATE"]


def test_djangos_own_functions_are_left_as_they_are():
    assert not hasattr(models.SET_DEFAULT, "lazy_sub_objs")
    assert Tag._meta.base_manager.__class__ is models.Manager

    with isolate_apps("tests.library"):

        class Label(models.Model):
            tag = models.ForeignKey(Tag, models.SET_DEFAULT, default=None, null=True, related_name="+")

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return str(self.pk)

    assert Label._meta.get_field("tag").remote_field.on_delete is models.SET_DEFAULT


def test_migrations_write_djangos_own_names_and_see_no_change():
    states = ProjectState(), ProjectState()
    for state in states:
        state.add_model(ModelState.from_model(Tag))
        state.add_model(ModelState.from_model(Poster))
    fields = states[0].models["library", "poster"].fields
    fields["defaulted"] = models.ForeignKey(
        "library.tag", models.SET_DEFAULT, default=None, null=True, related_name="+"
    )
    fields["called"] = models.ForeignKey("library.tag", models.SET(some_tag), null=True, related_name="+")

    written = {name: MigrationWriter.serialize(Poster._meta.get_field(name))[0] for name in ("defaulted", "called")}

    assert "on_delete=django.db.models.deletion.SET_DEFAULT" in written["defaulted"]
    assert "on_delete=models.SET(tests.library.models.some_tag)" in written["called"]
    assert MigrationAutodetector(*states)._detect_changes() == {}


def test_historical_rows_move_their_versions_too():
    state = ProjectState()
    state.add_model(ModelState.from_model(Tag))
    state.add_model(ModelState.from_model(Poster))
    tag = Tag.objects.create(name="old")
    Poster.objects.create(defaulted=tag)

    state.apps.get_model("library", "Tag").objects.get().delete()

    assert Poster.objects.values_list("defaulted", "version").get() == (None, 2)

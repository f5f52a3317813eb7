"""Deletions under the trigger: what they write on the way to the row that is deleted must not refuse them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, models

import occ
from occ.constraints import VersionTrigger
from tests.library.models import Category, Player, Poster, Tag, Team

WATCHED: list[type[models.Model]] = [Category, Player, Poster, Team]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("triggers")]


@pytest.fixture
def triggers(transactional_db: None) -> Iterator[None]:
    """Have triggers on tables that are ordinarily without."""
    watched = [(model, VersionTrigger(name=f"test_{model._meta.model_name}")) for model in WATCHED]
    with connection.schema_editor() as editor:
        for model, trigger in watched:
            editor.execute(trigger.create_sql(model, editor), params=None)
    yield
    with connection.schema_editor() as editor:
        for model, trigger in watched:
            editor.execute(trigger.remove_sql(model, editor), params=None)


def test_a_row_that_refers_to_itself_is_deleted() -> None:
    category = Category.objects.create(name="a")
    category.parent = category
    category.save()

    assert category.delete() == (1, {"library.Category": 1})
    assert not Category.objects.exists()


def test_a_circle_of_rows_is_deleted() -> None:
    first = Category.objects.create(name="a")
    second = Category.objects.create(name="b", parent=first)
    first.parent = second
    first.save()

    assert first.delete() == (2, {"library.Category": 2})
    assert not Category.objects.exists()


def test_a_stale_member_of_a_circle_is_refused_and_all_of_it_stays() -> None:
    first = Category.objects.create(name="a")
    second = Category.objects.create(name="b", parent=first)
    first.parent = second
    first.save()
    Category.objects.filter(pk=first.pk).update(name="theirs")

    with pytest.raises(occ.Conflict) as caught:
        first.delete()

    assert (caught.value.expected, caught.value.actual) == (2, 3)
    assert list(Category.objects.order_by("pk").values_list("parent", "version")) == [(second.pk, 3), (first.pk, 1)]


def test_a_row_is_deleted_with_those_it_refers_to() -> None:
    team = Team.objects.create()
    team.captain = Player.objects.create(team=team)
    team.rival = team
    team.save()

    assert team.delete() == (2, {"library.Player": 1, "library.Team": 1})
    assert not Team.objects.exists()


@pytest.mark.parametrize("field", ["nulled", "defaulted"])
def test_the_rows_that_are_left_count_once(field: str) -> None:
    tag = Tag.objects.create(name="gone")
    Poster.objects.create(**{field: tag})

    tag.delete()

    assert Poster.objects.values_list(field, "version").get() == (None, 2)

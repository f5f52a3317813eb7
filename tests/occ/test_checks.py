"""Every misuse of the model that can be seen is a check message with a hint, without occ in INSTALLED_APPS too."""

import itertools
import uuid
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.db import models
from django.test.utils import isolate_apps

from occ.fields import VersionField, from_clock
from occ.models import OptimisticLockManager, OptimisticLockModel, OptimisticLockQuerySet
from tests.library import models as library

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def isolated():
    with isolate_apps("tests.library"):
        yield


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages if str(message.id).startswith("occ.")]


numbers = itertools.count()


class Meta:
    app_label = "library"


def model(*bases: type, **attributes: Any) -> type[models.Model]:
    return type(
        f"Thing{next(numbers)}",
        bases or (OptimisticLockModel,),
        {"__module__": "tests.library", "Meta": Meta, **attributes},
    )


@pytest.mark.django_db
def test_the_models_of_the_tests_have_nothing_to_complain_of():
    found = {
        each.__name__: ids(each.check(databases=["default"]))
        for each in vars(library).values()
        if isinstance(each, type) and issubclass(each, OptimisticLockModel) and not each._meta.abstract
    }

    assert {name: messages for name, messages in found.items() if messages} == {
        "Cover": ["occ.W002"],
        "Holding": ["occ.W002"],
        "Place": ["occ.W002"],
    }


def test_no_version_field_at_all():
    assert ids(model(version=None).check()) == ["occ.E001"]


def test_a_nullable_or_indexed_version_field():
    nullable = model(version=None, revision=VersionField(null=True))
    indexed = model(version=None, revision=VersionField(db_index=True))

    assert (ids(nullable.check()), ids(indexed.check())) == (["occ.E002"], ["occ.W001"])


def test_two_version_fields():
    assert ids(model(revision=VersionField()).check()) == ["occ.E003"]


def test_a_locked_child_of_an_unlocked_parent():
    parent = type("Parent", (models.Model,), {"__module__": "tests.library", "Meta": Meta})

    assert ids(model(OptimisticLockModel, parent).check()) == ["occ.E004"]


def test_a_manager_that_is_not_ours():
    messages = model(objects=models.Manager()).check()

    assert ids(messages) == ["occ.E005"]
    assert "Derive Manager from occ.models.OptimisticLockManager" in messages[0].hint


def test_managers_built_from_our_queryset_are_fine():
    class Numbers(OptimisticLockQuerySet):
        pass

    assert ids(model(objects=OptimisticLockManager.from_queryset(Numbers)()).check()) == []


def test_a_manager_of_ours_with_a_queryset_that_is_not():
    plain = OptimisticLockManager.from_queryset(models.QuerySet)()

    assert ids(model(objects=plain).check()) == ["occ.E005"]


def test_a_base_manager_that_is_not_ours():
    class WithBase(Meta):
        base_manager_name = "plain"

    messages = model(objects=OptimisticLockManager(), plain=models.Manager(), Meta=WithBase).check()

    assert set(ids(messages)) == {"occ.E005"}


def test_keys_that_can_come_back_should_start_versions_from_the_clock():
    slug = models.SlugField(primary_key=True)
    parent = model(models=None)

    assert ids(model(slug=slug).check()) == ["occ.W002"]
    assert ids(model(slug=models.SlugField(primary_key=True), version=VersionField(start=from_clock)).check()) == []
    assert ids(model(id=models.UUIDField(primary_key=True, default=uuid.uuid4)).check()) == []
    assert ids(type("Child", (parent,), {"__module__": "tests.library", "Meta": Meta}).check()) == []


def test_an_on_delete_of_the_applications_own():
    def forget(collector, field, sub_objs, using):
        collector.add_field_update(field, None, sub_objs)

    def forget_lazily(collector, field, sub_objs, using):
        collector.add_field_update(field, None, sub_objs)

    forget_lazily.lazy_sub_objs = True

    def referring(on_delete):
        return model(other=models.ForeignKey("auth.User", on_delete, null=True, related_name="+"))

    assert ids(referring(forget).check()) == ["occ.W003"]
    for fine in (forget_lazily, models.CASCADE, models.PROTECT, models.SET_NULL, models.SET(None), models.DO_NOTHING):
        assert ids(referring(fine).check()) == []


def test_a_class_that_replaces_the_guarded_write():
    class Careless:
        def _do_update(self, *args: Any) -> bool:
            return True

    assert ids(model(Careless, OptimisticLockModel).check()) == ["occ.E006"]
    assert ids(model(OptimisticLockModel, Careless).check()) == []


@pytest.mark.parametrize("start", [0, -1, "1", 1.5, True])
def test_a_wrong_start_is_named(start):
    with pytest.raises(ValueError, match="^start must be"):
        VersionField(start=start)


def test_a_composite_key_of_unknown_fields_is_left_to_djangos_check():
    messages = model(pk=models.CompositePrimaryKey("one", "two"), one=models.IntegerField()).check(databases=None)

    assert [message.id for message in messages] == ["models.E042"]

"""What ``manage.py check`` says of models with field ownership that are put together wrongly."""

from typing import Any, ClassVar

import pytest
from django.apps import apps
from django.db import models
from django.test.utils import isolate_apps

from occ.models import OptimisticLockManager, OptimisticLockModel
from occ.ownership import FieldOwnershipModel, ManagedFields
from tests.library.models import Diesel, Engine, Gate


def ids(model: type[models.Model]) -> list[str]:
    return [message.id for message in model.check() if message.id]


@pytest.mark.parametrize("model", [Gate, Engine, Diesel])
def test_a_right_model_passes(model: type[models.Model]):
    assert ids(model) == []


@isolate_apps("tests.library")
def test_one_column_of_owners_is_needed():
    class Two(FieldOwnershipModel):
        more = ManagedFields()

        class Meta:
            app_label = "library"

    class Renamed(FieldOwnershipModel):
        managed_fields = None

        class Meta:
            app_label = "library"

    assert ids(Two) == ["occ.E040"]
    assert ids(Renamed) == ["occ.E040"]


@isolate_apps("tests.library")
def test_a_guarded_parent_must_own_fields_itself():
    class Root(OptimisticLockModel):
        class Meta:
            app_label = "library"

    class Both(FieldOwnershipModel, Root):
        class Meta:
            app_label = "library"

    assert "occ.E003" in ids(Both)


@isolate_apps("tests.library")
def test_the_column_of_owners_is_guarded_and_has_its_default():
    class Loose(FieldOwnershipModel):
        managed_fields = ManagedFields(null=True)
        occ_unguarded_fields = ("managed_fields",)

        class Meta:
            app_label = "library"

    assert ids(Loose) == ["occ.E041", "occ.E042"]


@isolate_apps("tests.library")
def test_managers_must_take_ownership():
    class Managed(FieldOwnershipModel):
        objects: ClassVar[Any] = OptimisticLockManager()

        class Meta:
            app_label = "library"

    (message,) = Managed.check()

    assert (message.id, message.msg) == (
        "occ.E043",
        "The manager 'objects' of Managed writes without taking ownership.",
    )


def test_migrations_know_the_column_and_nothing_else():
    field = apps.get_model("library", "gate")._meta.get_field("managed_fields")

    name, path, args, kwargs = field.deconstruct()

    assert (name, path, list(args), kwargs) == ("managed_fields", "occ.managed_fields.ManagedFields", [], {})
    assert [manager.name for manager in Gate._meta.managers if manager.use_in_migrations] == []

"""The private parts of Django that occ overrides or calls are, per version, what occ takes them for."""

import inspect

import django
import pytest
from django.db.models import Field, Model, QuerySet
from django.db.models.deletion import Collector
from django.db.models.options import Options
from django.utils.functional import cached_property

SAVE = ["self", "raw", "force_insert", "force_update", "using", "update_fields"]
DO_UPDATE = ["self", "base_qs", "using", "pk_val", "values", "update_fields", "forced_update"]
INSERT = ["self", "objs", "fields", "returning_fields", "raw", "using", "on_conflict", "update_fields", "unique_fields"]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (Model.save_base, SAVE),
        (Model._save_table, ["self", "raw", "cls", *SAVE[2:]]),
        (Model._do_update, DO_UPDATE if django.VERSION < (6, 0) else [*DO_UPDATE, "returning_fields"]),
        (QuerySet._insert, INSERT),
        (Collector.add_field_update, ["self", "field", "value", "objs"]),
        (Collector.instances_with_model, ["self"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_the_methods_take_what_occ_passes(method, parameters):
    assert list(inspect.signature(method).parameters) == parameters


@pytest.mark.parametrize(("owner", "name"), [(Options, "base_manager"), (Options, "managers"), (Field, "cached_col")])
def test_the_properties_are_computed_once(owner, name):
    assert isinstance(inspect.getattr_static(owner, name), cached_property)
    assert owner is Field or name in Options.FORWARD_PROPERTIES

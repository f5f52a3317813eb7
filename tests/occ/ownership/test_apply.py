"""Applies: the rules of field ownership, one by one."""

import contextlib
import datetime
import decimal
import pickle

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import F

import occ
from occ.ownership import Contested, FieldConflict, Owner, owners_of
from tests.library.models import Author, Diesel, Engine, Gate

pytestmark = pytest.mark.django_db


@pytest.fixture
def gate() -> Gate:
    return Gate.objects.create()


def stored(gate: Gate, *names: str) -> tuple[object, ...]:
    return Gate.objects.values_list(*names).get(pk=gate.pk)


def test_a_manager_owns_just_the_fields_that_it_names(gate: Gate):
    applied = Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    assert (applied.replicas, applied.version) == (5, 2)
    assert applied.managed_fields == {"replicas": {"at": 2, "apply": ["hpa"]}}
    assert stored(gate, "replicas", "version", "managed_fields") == (5, 2, applied.managed_fields)
    assert owners_of(applied, "replicas") == (Owner("hpa", "apply"),)
    assert owners_of(applied, "image") == ()


def test_managers_of_different_fields_do_not_conflict(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")
    Gate.objects.apply(gate.pk, {"image": "shop:2"}, manager="rollout")

    assert stored(gate, "replicas", "image", "version", "managed_fields") == (
        5,
        "shop:2",
        3,
        {"replicas": {"at": 2, "apply": ["hpa"]}, "image": {"at": 3, "apply": ["rollout"]}},
    )


def test_changing_what_others_own_is_refused_with_all_of_it_listed(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5, "image": "a"}, manager="hpa")
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="vpa")

    with pytest.raises(FieldConflict) as refused:
        Gate.objects.apply(gate.pk, {"image": "b", "replicas": 6, "name": "east"}, manager="kubectl")

    conflict = refused.value
    assert conflict.conflicts == (
        Contested("image", "hpa", "a"),
        Contested("replicas", "hpa", 5),
        Contested("replicas", "vpa", 5),
    )
    assert (conflict.model, conflict.pk, conflict.manager, conflict.using) == (Gate, gate.pk, "kubectl", "default")
    assert str(conflict) == (
        f"apply of library.Gate {gate.pk} by 'kubectl' refused, nothing was written: image ('a') is owned by 'hpa'; "
        "replicas (5) is owned by 'hpa', 'vpa'. Leave out what is not yours, ask for the current values to share them, "
        "or take the fields with force=True."
    )
    assert stored(gate, "name", "image", "replicas", "version") == ("", "a", 5, 3)


def test_a_conflict_can_be_pickled(gate: Gate):
    conflict = FieldConflict(model=Gate, pk=7, manager="vpa", conflicts=[Contested("replicas", "hpa", 5)], using="x")

    copy = pickle.loads(pickle.dumps(conflict))

    assert (type(copy), vars(copy), str(copy)) == (FieldConflict, vars(conflict), str(conflict))


def test_the_same_value_is_shared(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="vpa")
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    assert stored(gate, "replicas", "managed_fields") == (5, {"replicas": {"at": 3, "apply": ["hpa", "vpa"]}})


def test_of_two_who_share_a_field_neither_may_change_it(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="vpa")
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    with pytest.raises(FieldConflict) as refused:
        Gate.objects.apply(gate.pk, {"replicas": 6}, manager="vpa")

    assert refused.value.conflicts == (("replicas", "hpa", 5),)


def test_force_takes_the_contested_fields_and_no_others(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5, "image": "a", "name": "east"}, manager="hpa")

    Gate.objects.apply(gate.pk, {"replicas": 6, "image": "a"}, manager="vpa", force=True)

    assert stored(gate, "replicas", "image", "managed_fields") == (
        6,
        "a",
        {
            "replicas": {"at": 3, "apply": ["vpa"]},
            "image": {"at": 3, "apply": ["hpa", "vpa"]},
            "name": {"at": 2, "apply": ["hpa"]},
        },
    )


def test_an_owned_field_that_is_omitted_returns_to_its_default(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5, "image": "a", "size": 9, "opens_at": None}, manager="hpa")

    applied = Gate.objects.apply(gate.pk, {"image": "b"}, manager="hpa")

    assert (applied.replicas, applied.image, applied.size, applied.version) == (1, "b", 3, 3)
    assert applied.managed_fields == {"image": {"at": 3, "apply": ["hpa"]}}
    assert stored(gate, "replicas", "image", "size", "managed_fields") == (1, "b", 3, applied.managed_fields)


def test_a_shared_field_that_is_omitted_keeps_its_value(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="vpa")

    Gate.objects.apply(gate.pk, {}, manager="hpa")

    assert stored(gate, "replicas", "managed_fields") == (5, {"replicas": {"at": 4, "apply": ["vpa"]}})


def test_a_number_without_a_default_keeps_its_value_when_given_up(gate: Gate):
    film = Diesel.objects.create(label="x")
    Diesel.objects.apply(film.pk, {"power": 4, "tank": 7, "note": "n"}, manager="a")

    applied = Diesel.objects.apply(film.pk, {}, manager="a")

    assert (applied.power, applied.tank, applied.note, applied.owners) == (
        0,
        10,
        "",
        {"label": {"at": 1, "update": "unknown"}},
    )


def test_applying_what_is_already_so_is_only_a_read(gate: Gate, django_assert_num_queries):
    values = {
        "replicas": "5",
        "spec": {"b": [1, None], "a": {"c": 1.5}},
        "price": "1.005",
        "opens_at": datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
        "author": Author.objects.create(name="Jane"),
        "name": "é'\"%s\\",
    }
    before = Gate.objects.apply(gate.pk, values, manager="hpa")

    with django_assert_num_queries(1):
        again = Gate.objects.apply(gate.pk, values, manager="hpa")

    assert (again.version, again.managed_fields) == (2, before.managed_fields)
    assert (again.price, again.author_id, again.name) == (decimal.Decimal("1.00"), before.author_id, "é'\"%s\\")


def test_an_apply_is_one_read_and_one_write(gate: Gate, django_assert_num_queries):
    with django_assert_num_queries(2) as queries:
        Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    assert queries[1]["sql"].startswith("UPDATE")


@pytest.mark.parametrize("one, other", [(1, True), (1, 1.0), ({}, []), ([1, 2], [2, 1]), (None, {})])
def test_json_values_that_python_takes_for_equal_are_told_apart(gate: Gate, one, other):
    Gate.objects.apply(gate.pk, {"spec": {"x": one}}, manager="hpa")

    applied = Gate.objects.apply(gate.pk, {"spec": {"x": other}}, manager="hpa")

    assert applied.version == 3


def test_the_same_name_by_a_plain_save_is_another_manager(gate: Gate):
    with occ.field_manager("hpa"):
        gate.replicas = 5
        gate.save()

    with pytest.raises(FieldConflict, match=r"replicas \(5\) is owned by 'hpa' by a plain save\."):
        Gate.objects.apply(gate.pk, {"replicas": 6}, manager="hpa")


def test_a_dry_run_writes_nothing_and_shows_what_would_be(gate: Gate, django_assert_num_queries):
    with django_assert_num_queries(1):
        shown = Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa", dry_run=True)

    assert (shown.replicas, shown.version, shown.managed_fields) == (5, 1, {"replicas": {"at": 2, "apply": ["hpa"]}})
    assert stored(gate, "replicas", "version", "managed_fields") == (1, 1, {})


def test_a_dry_run_is_refused_as_the_apply_would_be(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    with pytest.raises(FieldConflict):
        Gate.objects.apply(gate.pk, {"replicas": 6}, manager="vpa", dry_run=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nope": 1}, r"library\.Gate has no field 'nope'\. Fields that can be applied: name, replicas, "),
        ({"id": 1}, "the primary key says which row it is"),
        ({"version": 1}, "the version moves by itself"),
        ({"managed_fields": {}}, "ownership follows from what is applied"),
        ({"tags": []}, "only columns of the row have owners"),
        ({"hits": 1}, "one of occ_unguarded_fields"),
        ({"updated_at": None}, "written by Django itself"),
        ({"replicas": F("size")}, "cannot be applied as an expression"),
        ({"author": 1, "author_id": 1}, "names the field 'author' twice"),
        ({"author": Author(name="new")}, "has not been saved"),
        ({"replicas": Author(name="new")}, r"cannot be applied as a library\.Author object"),
        ([("replicas", 1)], "must be a mapping"),
        ({7: 1}, "has no field 7"),
    ],
)
def test_what_cannot_be_owned_is_named(gate: Gate, values, message):
    with pytest.raises(ValueError, match=message):
        Gate.objects.apply(gate.pk, values, manager="hpa")

    assert stored(gate, "version") == (1,)


def test_values_that_do_not_fit_are_all_named(gate: Gate):
    with pytest.raises(ValidationError) as refused:
        Gate.objects.apply(gate.pk, {"replicas": "many", "name": None, "price": "1e9", "spec": {1, 2}}, manager="hpa")

    assert {name: [error.code for error in errors] for name, errors in refused.value.error_dict.items()} == {
        "replicas": ["invalid"],
        "name": ["null"],
        "price": ["max_digits"],
        "spec": ["invalid"],
    }
    assert stored(gate, "version") == (1,)


@pytest.mark.parametrize("name", ["", None, "x" * 129, "a\nb", 7])
def test_a_manager_needs_a_name(gate: Gate, name):
    with pytest.raises(ValueError, match="1 to 128 printable characters"):
        Gate.objects.apply(gate.pk, {"replicas": 5}, manager=name)


def test_a_row_that_does_not_exist_is_not_created():
    with pytest.raises(Gate.DoesNotExist):
        Gate.objects.apply(7, {"replicas": 5}, manager="hpa")


def test_filters_of_the_queryset_apply(gate: Gate):
    with pytest.raises(Gate.DoesNotExist):
        Gate.objects.filter(name="other").apply(gate.pk, {"replicas": 5}, manager="hpa")


def test_who_read_the_row_before_an_apply_is_refused(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    with pytest.raises(occ.Conflict):
        gate.save()


def test_what_an_apply_returns_can_be_saved(gate: Gate):
    applied = Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    applied.name = "east"
    applied.save()

    assert stored(gate, "replicas", "name", "managed_fields") == (
        5,
        "east",
        {"replicas": {"at": 2, "apply": ["hpa"]}, "name": {"at": 3, "update": "unknown"}},
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("block", [contextlib.nullcontext, transaction.atomic])
def test_a_rival_between_read_and_write_is_noticed_only_on_the_same_field(gate: Gate, block):
    rivals: list[dict[str, object]] = []

    def overtake(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and rivals:
            rival = rivals.pop()
            with occ.field_manager("rival"):
                Gate.objects.filter(pk=gate.pk).update(**rival)
        return execute(sql, params, many, context)

    with block(), connection.execute_wrapper(overtake):
        rivals.append({"image": "rival"})
        applied = Gate.objects.apply(gate.pk, {"size": 5}, manager="hpa")
        rivals.append({"replicas": 8})
        with pytest.raises(FieldConflict) as refused:
            Gate.objects.apply(gate.pk, {"size": 5, "replicas": 5}, manager="hpa")

    assert (applied.version, applied.size, applied.image) == (3, 5, "rival")
    assert refused.value.conflicts == (("replicas", "rival", 8),)


def test_an_apply_over_several_tables_writes_all_of_them():
    engine = Diesel.objects.create(label="x")

    applied = Diesel.objects.apply(engine.pk, {"power": 5, "tank": 20}, manager="hpa")

    assert (applied.power, applied.tank, applied.version) == (5, 20, 2)
    assert Diesel.objects.values_list("power", "tank", "version", "owners").get() == (5, 20, 2, applied.owners)
    assert applied.owners == {
        "label": {"at": 1, "update": "unknown"},
        "power": {"at": 2, "apply": ["hpa"]},
        "tank": {"at": 2, "apply": ["hpa"]},
    }
    assert Engine.objects.apply(engine.pk, {"power": 6}, manager="vpa", force=True).owners["power"]["apply"] == ["vpa"]


@pytest.mark.django_db(transaction=True)
def test_it_can_be_awaited(gate: Gate):
    applied = async_to_sync(Gate.objects.all().aapply)(gate.pk, {"replicas": 5}, manager="hpa")

    assert applied.replicas == 5


def test_what_an_apply_returned_is_as_old_as_its_row_after_a_rollback(gate: Gate):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        applied = Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")
        raise ZeroDivisionError

    assert (applied.version, applied.managed_fields) == (1, {})
    Gate.objects.get(pk=gate.pk).save()  # a rival reaches the number that was taken back
    with pytest.raises(occ.Conflict):
        applied.save()
    assert stored(gate, "replicas", "version") == (1, 2)


def test_an_object_read_after_an_apply_that_was_rolled_back_is_refused(gate: Gate):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")
        read = Gate.objects.get(pk=gate.pk)
        raise ZeroDivisionError

    Gate.objects.get(pk=gate.pk).save()
    with pytest.raises(occ.Conflict, match="rolled back"):
        read.save()
    assert stored(gate, "replicas", "version") == (1, 2)

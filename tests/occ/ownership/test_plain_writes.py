"""Saves, updates and bulk writes: they always win, take what they changed, and cost no statement more."""

import copy
import pickle

import pytest
from django.core.management import call_command
from django.db import connection, transaction

import occ
from tests.library.models import Author, Diesel, Gate

pytestmark = pytest.mark.django_db


@pytest.fixture
def gate() -> Gate:
    """A gate whose replicas and image "hpa" has applied."""
    gate = Gate.objects.create()
    return Gate.objects.apply(gate.pk, {"replicas": 5, "image": "a"}, manager="hpa")


HPA = {"at": 2, "apply": ["hpa"]}


def owners(gate: Gate) -> dict[str, object]:
    managed: dict[str, object] = Gate.objects.values_list("managed_fields", flat=True).get(pk=gate.pk)
    return managed


def test_a_save_takes_the_fields_that_it_changed_for_the_current_manager(gate: Gate, django_assert_num_queries):
    gate = Gate.objects.get()
    gate.replicas = 7
    gate.spec["x"] = 1

    with occ.field_manager("user:1"), django_assert_num_queries(1):
        gate.save()

    expected = {
        "replicas": {"at": 3, "update": "user:1"},
        "spec": {"at": 3, "update": "user:1"},
        "image": HPA,
    }
    assert (owners(gate), gate.managed_fields) == (expected, expected)


def test_a_save_that_changes_nothing_takes_nothing(gate: Gate):
    gate.replicas, gate.price = "5", 0

    gate.save()

    assert (owners(gate), gate.version) == ({"replicas": HPA, "image": HPA}, 3)


def test_each_save_takes_what_changed_since_the_one_before(gate: Gate):
    gate.replicas = 7
    gate.save()
    gate.image = "b"
    gate.save()

    assert owners(gate) == {"replicas": {"at": 3, "update": "unknown"}, "image": {"at": 4, "update": "unknown"}}


def test_update_fields_take_only_what_they_name(gate: Gate, django_assert_num_queries):
    gate.replicas, gate.image = 7, "b"

    with django_assert_num_queries(1):
        gate.save(update_fields=["replicas", "price"])

    assert owners(gate) == {"replicas": {"at": 3, "update": "unknown"}, "image": HPA}


def test_objects_with_deferred_fields_take_what_was_assigned(gate: Gate, django_assert_num_queries):
    partial = Gate.objects.only("version", "image", "author").get()
    partial.image = "b"
    partial.price = 3

    with django_assert_num_queries(1):
        partial.save()

    unknown = {"at": 3, "update": "unknown"}
    assert owners(gate) == {"replicas": HPA, "image": unknown, "price": unknown}
    assert partial.managed_fields == owners(gate)


def test_a_field_that_was_loaded_later_is_not_taken(gate: Gate):
    partial = Gate.objects.only("version", "image").get()
    assert partial.replicas == 5

    partial.save()

    assert owners(gate) == {"replicas": HPA, "image": HPA}


def test_a_new_row_is_owned_where_it_differs_from_the_defaults(django_assert_num_queries):
    author = Author.objects.create(name="Jane")

    with occ.field_manager("user:1"), django_assert_num_queries(1):
        gate = Gate.objects.create(name="east", replicas=1, image="", author=author, hits=4)

    expected = {"name": {"at": 1, "update": "user:1"}, "author": {"at": 1, "update": "user:1"}}
    assert (owners(gate), gate.managed_fields) == (expected, expected)
    gate.image = "b"
    gate.save()
    assert owners(gate) == {**expected, "image": {"at": 2, "update": "unknown"}}


def test_a_copy_saved_as_new_belongs_to_who_made_it(gate: Gate):
    gate.pk, gate._state.adding = None, True

    gate.save()

    assert owners(gate) == {"replicas": {"at": 1, "update": "unknown"}, "image": {"at": 1, "update": "unknown"}}


def test_bulk_create_owns_as_create_does_and_its_objects_can_be_saved():
    (gate,) = Gate.objects.bulk_create([Gate(pk=1, name="east")])
    gate.replicas = 2

    gate.save()

    assert owners(gate) == {"name": {"at": 1, "update": "unknown"}, "replicas": {"at": 2, "update": "unknown"}}


def test_an_upsert_takes_the_fields_that_it_updates(gate: Gate):
    unique = {} if connection.vendor == "mysql" else {"unique_fields": ["id"]}
    row = Gate(pk=gate.pk, name="o'\"%s", replicas=9, image="z")

    with occ.field_manager("sync%s'"):
        Gate.objects.bulk_create([row], update_conflicts=True, update_fields=["name", "replicas"], **unique)

    taken = {"at": 3, "update": "sync%s'"}
    assert owners(gate) == {"image": HPA, "name": taken, "replicas": taken}
    assert Gate.objects.values_list("name", "replicas", "image", "version").get() == ("o'\"%s", 9, "a", 3)


def test_update_takes_the_fields_that_it_names(gate: Gate, django_assert_num_queries):
    author = Author.objects.create(name="Jane")

    with occ.field_manager("cron"), django_assert_num_queries(1):
        Gate.objects.update(version=9, replicas=5, author_id=author.pk, hits=3)

    taken = {"at": 3, "update": "cron"}
    assert owners(gate) == {"replicas": taken, "author": taken, "image": HPA}
    assert Gate.objects.values_list("version", flat=True).get() == 9


def test_an_update_of_unguarded_fields_takes_nothing(gate: Gate):
    Gate.objects.update(hits=3)
    fresh = Gate.objects.get()
    fresh.hits = 4
    fresh.save(update_fields=["hits"])

    assert owners(gate) == {"replicas": HPA, "image": HPA}
    assert Gate.objects.values_list("version", "hits").get() == (2, 4)


def test_ownership_can_be_given_by_hand(gate: Gate):
    Gate.objects.update(managed_fields={})

    assert owners(gate) == {}


def test_a_deleted_relation_is_unset_by_who_deletes(gate: Gate):
    author = Author.objects.create(name="Jane")
    Gate.objects.apply(gate.pk, {"author": author}, manager="librarian")

    with occ.field_manager("user:1"):
        author.delete()

    assert owners(gate)["author"] == {"at": 4, "update": "user:1"}


@pytest.mark.parametrize("slow", [False, True])
def test_bulk_update_takes_the_fields_that_it_names(gate: Gate, slow: bool):
    other = Gate.objects.create()
    gate.replicas, other.replicas = 7, 8
    rows = Gate.objects.filter(size=3) if slow else Gate.objects.all()

    with occ.field_manager("cron"):
        rows.bulk_update([gate, other], ["replicas"])

    assert owners(gate) == gate.managed_fields == {"replicas": {"at": 3, "update": "cron"}, "image": HPA}
    assert owners(other) == other.managed_fields == {"replicas": {"at": 2, "update": "cron"}}
    gate.name = "east"
    gate.save()
    assert owners(gate)["name"] == {"at": 4, "update": "unknown"}
    assert owners(gate)["replicas"] == {"at": 3, "update": "cron"}


def test_mutate_takes_what_its_function_changed(gate: Gate):
    def scale(copy: Gate) -> None:
        copy.replicas += 1
        copy.save()
        copy.name = "east"

    with occ.field_manager("hpa"):
        changed = Gate.objects.mutate(gate.pk, scale)

    assert (changed.version, changed.managed_fields) == (
        4,
        {"image": HPA, "replicas": {"at": 3, "update": "hpa"}, "name": {"at": 4, "update": "hpa"}},
    )
    assert owners(gate) == changed.managed_fields


def test_a_mutate_that_saves_by_hand_writes_once(gate: Gate):
    def scale(copy: Gate) -> None:
        copy.replicas += 1
        copy.save()

    assert Gate.objects.mutate(gate.pk, scale).version == 3


def test_a_save_that_is_rolled_back_is_as_if_it_had_not_been(gate: Gate):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        gate.replicas = 7
        gate.save()
        gate.image = "b"
        gate.save()
        _ = 1 / 0
    gate.replicas = 5

    assert gate.managed_fields == {"replicas": HPA, "image": HPA}
    gate.save()

    assert (owners(gate), gate.version) == ({"replicas": HPA, "image": {"at": 3, "update": "unknown"}}, 3)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda gate: pickle.loads(pickle.dumps(gate))])
def test_copies_know_what_they_were_read_with(gate: Gate, duplicate):
    other = duplicate(gate)
    gate.image = "b"
    other.replicas = 6

    other.save()

    assert owners(gate) == {"replicas": {"at": 3, "update": "unknown"}, "image": HPA}


def test_who_overwrites_on_purpose_takes_all_that_is_written(gate: Gate):
    Gate.objects.apply(gate.pk, {"replicas": 6, "image": "a"}, manager="hpa")
    gate.refresh_from_db(fields=["version"])

    gate.save(update_fields=["replicas", "price"])

    unknown = {"at": 4, "update": "unknown"}
    assert owners(gate) == {"replicas": unknown, "price": unknown, "image": HPA}


def test_fixtures_keep_the_owners_that_they_name(gate: Gate, tmp_path):
    file = tmp_path / "gates.json"
    call_command("dumpdata", "library.gate", output=str(file))
    Gate.objects.all().delete()

    call_command("loaddata", str(file), verbosity=0)

    assert owners(gate) == {"replicas": HPA, "image": HPA}


def test_a_save_over_several_tables_takes_the_fields_of_all():
    engine = Diesel.objects.create(label="x")
    Diesel.objects.apply(engine.pk, {"tank": 20, "power": 3}, manager="a")
    engine = Diesel.objects.get()
    engine.tank = 30

    engine.save()
    engine.note = "n"
    engine.save(update_fields=["note"])

    assert Diesel.objects.values_list("owners", flat=True).get() == {
        "label": {"at": 1, "update": "unknown"},
        "power": {"at": 2, "apply": ["a"]},
        "tank": {"at": 3, "update": "unknown"},
        "note": {"at": 4, "update": "unknown"},
    }


def test_a_save_in_a_state_it_was_not_read_in_is_refused_and_takes_nothing(gate: Gate):
    stale = Gate.objects.get()
    Gate.objects.apply(gate.pk, {"replicas": 6, "image": "a"}, manager="hpa")
    stale.image = "b"

    with pytest.raises(occ.Conflict):
        stale.save()

    assert owners(gate) == {"replicas": {"at": 3, "apply": ["hpa"]}, "image": HPA}
    assert stale.managed_fields == {"replicas": HPA, "image": HPA}

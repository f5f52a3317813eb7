"""Which row an object is: keys of several parts, keys in the tables of parents, keys given as text."""

import pytest
from django.db import IntegrityError, transaction

import occ
from occ.keys import comparable
from tests.library.models import Book, Cover, Documentary, Film, Holding, Medium

pytestmark = pytest.mark.django_db

WRITES = {
    "save": lambda found: found.save(),
    "some fields": lambda found: found.save(update_fields=["minutes"]),
    "touch": lambda found: found.touch(),
    "delete": lambda found: found.delete(),
    "bulk_update": lambda found: type(found).objects.bulk_update([found], ["title", "minutes"]),
    "bulk_update of what is current": lambda found: type(found).objects.bulk_update(
        [found], ["title", "minutes"], on_conflict="skip"
    ),
}

COPYING = {"as the message says": ["pk"], "as Django's documentation says": ["pk", "id"]}


def parts() -> list[tuple[str, int, int]]:
    return sorted(Film.objects.values_list("title", "minutes", "version"))


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", ["created", "loaded", "loaded in part"])
@pytest.mark.parametrize(
    ("model", "key"),
    [(Film, "id"), (Film, "medium_ptr_id"), (Film, "pk"), *((Documentary, name) for name in ("id", "medium_ptr_id"))],
)
def test_an_object_of_several_tables_never_writes_parts_of_another(model, key, read, write):
    mine = model.objects.create(title="Sans Soleil", minutes=103)
    other = model.objects.create(title="La Jetée", minutes=28)
    if read == "loaded":
        mine = model.objects.get(pk=mine.pk)
    elif read == "loaded in part":
        mine = model.objects.only("minutes", "version").get(pk=mine.pk)

    setattr(mine, key, other.pk)
    mine.minutes = 1
    with pytest.raises(occ.Conflict, match="its primary key was changed"):
        WRITES[write](mine)

    assert parts() == [("La Jetée", 28, 1), ("Sans Soleil", 103, 1)]


def test_keys_of_several_tables_may_be_given_as_text():
    film = Film.objects.create(title="La Jetée")

    film.id = str(film.id)
    film.save()
    film.pk = str(film.pk)
    film.save()
    Film.objects.bulk_update([film], ["minutes"])

    assert parts() == [("La Jetée", 0, 4)]
    film.delete()
    assert not Medium.objects.exists()


def test_an_object_of_several_tables_can_be_deleted_though_it_is_loaded_in_part():
    Film.objects.create(title="La Jetée")

    Film.objects.only("minutes", "version").get().delete()

    assert not Medium.objects.exists()


def test_an_object_of_several_tables_that_was_deleted_is_new_again():
    film = Film.objects.create(title="La Jetée")
    film.delete()

    film.save()
    assert parts() == [("La Jetée", 0, 1)]
    film.save()
    assert parts() == [("La Jetée", 0, 2)]


def test_a_new_object_of_several_tables_never_overwrites_a_row_of_the_parent():
    medium = Medium.objects.create(title="La Jetée")

    with pytest.raises(IntegrityError), transaction.atomic():
        Film(medium_ptr=medium, title="Sans Soleil").save()
    copy = Film.objects.create(title="La Jetée")
    copy.pk, copy.id = None, medium.pk  # a key that somebody chose is not replaced
    with pytest.raises(IntegrityError), transaction.atomic():
        copy.save()

    assert sorted(Medium.objects.values_list("title", "version")) == [("La Jetée", 1), ("La Jetée", 1)]


@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize("recipe", COPYING)
@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("model", [Film, Documentary])
def test_a_copy_of_an_object_of_several_tables_is_new_and_never_the_original(model, loaded, recipe, adding):
    found = model.objects.create(title="La Jetée")
    found.save()
    found = model.objects.get() if loaded else found

    for name in COPYING[recipe]:
        setattr(found, name, None)
    found._state.adding = adding
    found.minutes = 28
    found.save()
    found.save()

    assert parts() == [("La Jetée", 0, 2), ("La Jetée", 28, 2)]
    assert model.objects.count() == 2
    found.delete()
    assert parts() == [("La Jetée", 0, 2)]


def test_a_part_added_to_a_row_of_the_parent_is_guarded_by_its_version():
    medium = Medium.objects.create(title="La Jetée")
    stale = Film(medium_ptr_id=medium.pk, id=medium.pk, title="Sans Soleil", version=medium.version)
    medium.save()

    with pytest.raises(occ.Conflict), transaction.atomic():
        stale.save()
    Film(medium_ptr_id=medium.pk, id=medium.pk, title="La Jetée", minutes=28, version=medium.version).save()

    assert parts() == [("La Jetée", 28, 3)]


def test_keys_of_several_parts_may_be_given_as_text():
    Holding.objects.create(branch=1, number=2)
    holding = Holding.objects.get()

    holding.pk = ("1", "2")
    holding.copies = 3
    holding.save()
    Holding.objects.bulk_update([holding], ["copies"])
    assert Holding.objects.bulk_update([holding], ["copies"], on_conflict="skip") == []

    assert Holding.objects.values_list("copies", "version").get() == (3, 4)
    holding.delete()
    assert not Holding.objects.exists()


def test_keys_of_several_parts_are_the_same_row_whatever_their_types():
    Holding.objects.create(branch=1, number=2)
    one, twin = Holding.objects.get(), Holding.objects.get()
    twin.pk = ("1", "2")

    with pytest.raises(ValueError, match="the same row twice"):
        Holding.objects.bulk_update([one, twin], ["copies"])
    one.save()
    with pytest.raises(occ.BulkConflict) as refused:
        Holding.objects.bulk_update([twin], ["copies"])

    assert [conflict.actual for conflict in refused.value.conflicts] == [2]


def test_a_changed_part_of_a_key_is_refused():
    Holding.objects.create(branch=1, number=2)
    Holding.objects.create(branch=1, number=3)
    holding = Holding.objects.get(pk=(1, 2))

    holding.number, holding.copies = 3, 5
    with pytest.raises(occ.Conflict, match="its primary key was changed"):
        holding.save()

    assert sorted(Holding.objects.values_list("number", "copies")) == [(2, 0), (3, 0)]


def test_an_undone_write_is_recognised_by_a_key_in_other_types():
    Holding.objects.create(branch=1, number=2)
    with transaction.atomic():
        with pytest.raises(KeyError), transaction.atomic():
            writer = Holding.objects.get()
            writer.pk = ("1", "2")
            writer.save()
            reader = Holding.objects.get()
            raise KeyError
        with pytest.raises(occ.Conflict, match="rolled back"):
            reader.save()


def test_a_changed_key_that_is_a_relation_is_refused():
    cover = Cover.objects.create(book=Book.objects.create(title="Emma"))
    other = Cover.objects.create(book=Book.objects.create(title="Persuasion"), colour="blue")

    cover.book = other.book
    with pytest.raises(occ.Conflict, match="its primary key was changed"):
        cover.save()

    assert sorted(Cover.objects.values_list("colour", "version")) == [("blue", 1), ("red", 1)]


@pytest.mark.parametrize(
    ("model", "key", "found"),
    [
        (Book, "5", 5),
        (Book, None, None),
        (Film, "5", 5),
        (Cover, "5", 5),
        (Holding, ("1", 2), (1, 2)),
        (Holding, (None, 2), (None, 2)),
    ],
)
def test_keys_compare_in_the_types_of_their_columns(model, key, found):
    assert comparable(model, key) == found

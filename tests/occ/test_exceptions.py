"""Conflict and BulkConflict: facts, message, kinship, pickling."""

import copy
import pickle
import traceback

import django
import pytest
from django.db import DatabaseError, IntegrityError

from occ.exceptions import BulkConflict, Conflict
from tests.library.models import Book, Film, Medium


def conflict(pk: int = 1, actual: int | None = 3) -> Conflict:
    return Conflict(model=Book, pk=pk, expected=2, actual=actual, operation="save", instance=Book(pk=pk))


def test_it_is_a_database_error_but_never_an_integrity_error():
    assert isinstance(conflict(), DatabaseError)
    assert not isinstance(conflict(), IntegrityError)


django_6 = pytest.mark.skipif(django.VERSION < (6, 0), reason="Django 6 has ObjectNotUpdated")


@django_6
def test_it_is_djangos_object_not_updated():
    from django.core.exceptions import ObjectNotUpdated

    assert isinstance(conflict(), ObjectNotUpdated)


@django_6
@pytest.mark.django_db
def test_it_is_caught_as_the_not_updated_of_its_model():
    book = Book.objects.create(title="Dune")
    Book.objects.update(stock=1)

    with pytest.raises(Book.NotUpdated):
        book.save()
    with pytest.raises(Book.NotUpdated):
        Book.objects.bulk_update([book], ["stock"])


@django_6
def test_it_is_caught_as_that_of_a_parent_and_of_no_other_model():
    film = Conflict(model=Film, pk=1, expected=1, actual=2)

    assert isinstance(film, Film.NotUpdated)
    assert isinstance(film, Medium.NotUpdated)
    assert not isinstance(film, Book.NotUpdated)


@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", [Conflict, BulkConflict])
def test_a_copy_is_caught_as_what_it_was(kind, copied):
    original = conflict() if kind is Conflict else BulkConflict(conflicts=[conflict()])

    restored = copied(original)

    assert type(restored) is type(original)
    assert isinstance(restored, kind)
    assert traceback.format_exception_only(restored) == [f"occ.exceptions.{kind.__name__}: {original}\n"]


def test_a_pickled_conflict_keeps_its_facts_and_drops_the_instance():
    original = conflict(actual=None)

    restored = pickle.loads(pickle.dumps(original))

    assert type(restored) is type(original)
    assert restored.__dict__ == {**original.__dict__, "instance": None}
    assert (str(restored), restored.reason) == (str(original), "deleted")


def test_a_bulk_conflict_names_every_stale_row_and_the_way_out():
    bulk = BulkConflict(conflicts=[conflict(1), conflict(2, actual=None)], operation="bulk_update")

    restored = pickle.loads(pickle.dumps(bulk))

    assert [c.pk for c in restored.conflicts] == [1, 2]
    assert str(restored) == str(bulk)
    assert str(bulk) == (
        "bulk_update of library.Book refused, nothing was written: 2 stale: 1 (read at 2, now 3), 2 (read at 2, "
        'gone). Read these rows again and repeat, or pass on_conflict="skip" to write the others.'
    )

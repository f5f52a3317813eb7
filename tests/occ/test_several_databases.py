"""The guard, the journal and fresh reads work on the database that is written, whichever an object came from."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

import occ
from occ.diffs import refresh
from occ.testing import write_behind
from tests.library.models import Author, Book, Film

OTHER = "other"

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", OTHER]),
    pytest.mark.usefixtures("other_database"),
]


@pytest.fixture(scope="module")
def other_database(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A second database of the same kind. Made for this module alone: in the settings it would cost every run."""
    connections.settings[OTHER] = database = copy.deepcopy(connections.settings["default"])
    name = str(database["TEST"]["NAME"])
    if name.endswith(".sqlite3"):
        name = str(tmp_path_factory.mktemp("databases") / "other.sqlite3")
    database["TEST"]["NAME"] = name.replace("_default_", f"_{OTHER}_")
    with django_db_blocker.unblock():
        connections[OTHER].creation.create_test_db(verbosity=0, autoclobber=True)
        yield
        connections[OTHER].creation.destroy_test_db(name, verbosity=0)
        connections[OTHER].close()
    del connections[OTHER], connections.settings[OTHER]


class ReadsFromReplica:
    """Reads go to a replica, which here lags for as long as a test wants."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return OTHER

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, *objects: Any, **hints: Any) -> bool:
        return True


replica = override_settings(DATABASE_ROUTERS=[ReadsFromReplica()])


def in_both(**fields: Any) -> Book:
    """Create the same row in both databases, and return that of the default one."""
    book = Book.objects.using("default").create(**fields)
    Book.objects.using(OTHER).bulk_create([Book(pk=book.pk, **fields)])
    return book


def rows() -> dict[str, list[tuple[str, int]]]:
    return {
        alias: list(Book.objects.using(alias).order_by("pk").values_list("title", "version"))
        for alias in ("default", OTHER)
    }


def test_a_save_to_another_database_is_compared_with_the_row_there():
    book = in_both(title="old")
    Book.objects.using(OTHER).update(title="moved")
    book.title = "mine"

    with pytest.raises(occ.Conflict) as refused:
        book.save(using=OTHER)

    assert (refused.value.using, refused.value.expected, refused.value.actual) == (OTHER, 1, 2)
    assert rows() == {"default": [("old", 1)], OTHER: [("moved", 2)]}


def test_a_save_to_another_database_moves_the_version_there_alone():
    book = in_both(title="old")
    book.title = "mine"

    book.save(using=OTHER)

    assert rows() == {"default": [("old", 1)], OTHER: [("mine", 2)]}
    assert (book._state.db, book.version) == (OTHER, 2)


def test_an_object_that_the_other_database_lacks_is_inserted_there():
    book = Book.objects.create(title="old")
    book.save()

    book.save(using=OTHER)
    book.title = "new"
    book.save()

    assert rows()["default"] == [("old", 2)]
    assert [title for title, _ in rows()[OTHER]] == ["new"]
    assert rows()[OTHER][0][1] == book.version


@pytest.mark.parametrize("write", ["delete", "touch"])
def test_a_delete_and_a_touch_are_compared_with_the_row_of_the_database_they_write(write: str):
    book = in_both(title="old")
    Book.objects.using(OTHER).update(title="moved")

    with pytest.raises(occ.Conflict) as refused:
        getattr(book, write)(using=OTHER)

    assert refused.value.using == OTHER
    assert rows() == {"default": [("old", 1)], OTHER: [("moved", 2)]}
    getattr(book, write)(using="default")
    assert rows() == {"default": [] if write == "delete" else [("old", 2)], OTHER: [("moved", 2)]}


def test_bulk_update_is_guarded_where_its_queryset_writes():
    book = in_both(title="old")
    Book.objects.using(OTHER).update(title="moved")
    book.title = "mine"

    with pytest.raises(occ.BulkConflict) as refused:
        Book.objects.using(OTHER).bulk_update([book], ["title"])
    Book.objects.using("default").bulk_update([book], ["title"])

    assert [(conflict.using, conflict.actual) for conflict in refused.value.conflicts] == [(OTHER, 2)]
    assert rows() == {"default": [("mine", 2)], OTHER: [("moved", 2)]}


def test_objects_created_in_bulk_are_saved_where_they_were_created():
    (book,) = Book.objects.using(OTHER).bulk_create([Book(title="old")])
    book = Book.objects.using(OTHER).get()
    book.title = "mine"

    book.save()

    assert rows() == {"default": [], OTHER: [("mine", 2)]}


@replica
def test_an_object_read_from_a_replica_that_lags_is_refused_by_the_primary():
    in_both(title="old")
    Book.objects.using("default").update(title="moved")
    book = Book.objects.get()
    book.title = "mine"

    with pytest.raises(occ.Conflict) as refused:
        book.save()

    assert (book.title, refused.value.using, refused.value.actual) == ("mine", "default", 2)
    assert rows() == {"default": [("moved", 2)], OTHER: [("old", 1)]}


@replica
def test_an_object_read_from_a_replica_is_not_inserted_again_where_the_primary_has_deleted_it():
    in_both(title="old")
    Book.objects.using("default").all().delete()
    book = Book.objects.get()
    book.title = "mine"

    with pytest.raises(occ.Conflict) as refused:
        book.save()

    assert (refused.value.reason, refused.value.using) == ("deleted", "default")
    assert rows() == {"default": [], OTHER: [("old", 1)]}


@replica
def test_an_object_read_from_a_replica_that_keeps_up_is_written_to_the_primary():
    in_both(title="old")
    book = Book.objects.get()
    book.title = "mine"

    book.save()

    assert rows() == {"default": [("mine", 2)], OTHER: [("old", 1)]}


@replica
def test_mutate_reads_from_the_primary_at_once_and_again():
    pk = in_both(title="old").pk
    Book.objects.using("default").update(title="moved")
    attempts = []

    def change(book: Book) -> None:
        attempts.append((book.title, book.version))
        if len(attempts) == 1:
            Book.objects.using("default").filter(pk=pk).update(title="moved again")
        book.stock += 1

    with CaptureQueriesContext(connections[OTHER]) as asked_of_replica:
        # Its first attempt's rival is undone with that attempt, as both are in one transaction.
        saved = Book.objects.mutate(pk, change)

    assert attempts == [("moved", 2), ("moved", 2)]
    assert (saved.stock, saved.version, saved._state.db) == (1, 3, "default")
    assert asked_of_replica.captured_queries == []


@replica
def test_the_version_found_is_told_by_the_primary_and_refresh_reads_there():
    in_both(title="old")
    book = Book.objects.get()
    write_behind(Book.objects.using("default").get(), title="moved")

    with pytest.raises(occ.Conflict) as refused, CaptureQueriesContext(connections[OTHER]) as asked_of_replica:
        book.save()
    refresh(refused.value)

    assert asked_of_replica.captured_queries == []
    assert (book.title, book.version) == ("moved", 2)


def test_a_rollback_on_one_database_leaves_the_versions_of_the_other():
    ours, theirs = Book.objects.create(title="x"), Book.objects.using(OTHER).create(title="x")

    with transaction.atomic(), transaction.atomic(using=OTHER):
        ours.save()
        theirs.save()
        transaction.set_rollback(True, using=OTHER)

    assert (ours.version, theirs.version) == (2, 1)
    ours.save()
    theirs.save()
    assert rows() == {"default": [("x", 3)], OTHER: [("x", 2)]}


def test_a_conflict_on_one_database_leaves_the_transaction_of_the_other_usable():
    ours, theirs = Book.objects.create(title="x"), Book.objects.using(OTHER).create(title="x")
    write_behind(theirs)

    with transaction.atomic(), transaction.atomic(using=OTHER):
        with pytest.raises(occ.Conflict):
            theirs.save()
        ours.save()
        Book.objects.using(OTHER).update(title="y")

    assert rows() == {"default": [("x", 2)], OTHER: [("y", 3)]}


def test_set_null_moves_the_versions_of_the_database_it_writes():
    for alias in ("default", OTHER):
        author = Author(pk=1, name="Jane")
        author.save(using=alias, force_insert=True)
        Book.objects.using(alias).bulk_create([Book(pk=1, title="Emma", editor_id=1)])

    Author.objects.using(OTHER).get().delete()

    assert rows() == {"default": [("Emma", 1)], OTHER: [("Emma", 2)]}
    assert Book.objects.using("default").get().editor_id == 1


def test_a_hierarchy_is_locked_and_written_on_one_database():
    Film.objects.using(OTHER).create(title="Blue")

    with CaptureQueriesContext(connections["default"]) as asked_of_default:
        Film.objects.using(OTHER).update(minutes=98)
        Film.objects.using(OTHER).mutate(Film.objects.using(OTHER).get().pk, lambda film: setattr(film, "minutes", 99))

    assert asked_of_default.captured_queries == []
    assert Film.objects.using(OTHER).values_list("minutes", "version").get() == (99, 3)


def test_retry_on_conflict_tells_apart_the_lock_errors_of_the_database_it_writes():
    pk = Book.objects.using(OTHER).create(title="x").pk
    attempts = []

    @occ.retry_on_conflict(using=OTHER)
    def rename() -> None:
        book = Book.objects.using(OTHER).get(pk=pk)
        attempts.append(connections[OTHER].in_atomic_block)
        if len(attempts) == 1:
            write_behind(book)
        book.title = "y"
        book.save()

    rename()

    assert attempts == [True, True]
    assert rows()[OTHER] == [("y", 2)]

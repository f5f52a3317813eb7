"""What a caught conflict tells field by field: base, theirs, mine; and how its object gets to its row again."""

import pickle

import pytest
from django.db import transaction

import occ
from occ import diffs
from occ.diffs import UNKNOWN, FieldDiff
from tests.library.models import Author, Book, Member

pytestmark = pytest.mark.django_db(transaction=True)


def rival(book: Book, **values: object) -> None:
    """Write other values to the row of ``book``, as somebody else."""
    Book.objects.filter(pk=book.pk).update(**values)


def refused(book: Book) -> occ.Conflict:
    with pytest.raises(occ.Conflict) as caught:
        book.save()
    return caught.value


def remembered(**values: object) -> Book:
    book = Book.objects.get(pk=Book.objects.create(**values).pk)
    diffs.remember(book)
    return book


def test_each_field_that_a_side_changed_is_told_with_base_theirs_and_mine():
    author = Author.objects.create(name="Ada")
    book = remembered(title="Dune", stock=1, price=2, notes="old", details={"pages": 1})
    rival(book, stock=5, notes="theirs", author=author)
    book.title, book.notes, book.details["pages"] = "Emma", "mine", 2

    found = diffs.compare(refused(book))

    assert found == [
        FieldDiff(name="title", base="Dune", theirs="Dune", mine="Emma"),
        FieldDiff(name="stock", base=1, theirs=5, mine=1),
        FieldDiff(name="notes", base="old", theirs="theirs", mine="mine"),
        FieldDiff(name="details", base={"pages": 1}, theirs={"pages": 1}, mine={"pages": 2}),
        FieldDiff(name="author", base=None, theirs=author.pk, mine=None),
    ]
    assert [diff.name for diff in found if diff.clashes] == ["notes"]
    assert (book.title, book.stock, book.version) == ("Emma", 1, 1)


def test_a_refreshed_object_is_as_its_row_and_saves():
    book = remembered(title="Dune", stock=1)
    rival(book, stock=5)
    book.title = "Emma"

    found = diffs.refresh(refused(book))
    book.save()

    assert [diff.name for diff in found] == ["title", "stock"]
    assert Book.objects.values_list("title", "stock", "version").get() == ("Dune", 5, 3)


def test_an_object_can_be_refreshed_around_what_was_changed_on_it():
    book = remembered(title="Dune", stock=1, notes="old")
    author = Author.objects.create(name="Ada")
    rival(book, stock=5, notes="theirs")
    book.title, book.notes, book.author = "Emma", "mine", author

    found = diffs.refresh(refused(book), keep_mine=True)
    book.save()

    assert [diff.name for diff in found if diff.clashes] == ["notes"]
    assert Book.objects.values_list("title", "stock", "notes", "author").get() == ("Emma", 5, "theirs", author.pk)


def test_a_second_conflict_compares_with_what_the_refresh_read():
    book = remembered(title="Dune", stock=1)
    rival(book, stock=5)
    book.title = "Emma"
    diffs.refresh(refused(book), keep_mine=True)
    rival(book, stock=6)

    found = diffs.compare(refused(book))

    assert found == [
        FieldDiff(name="title", base="Dune", theirs="Dune", mine="Emma"),
        FieldDiff(name="stock", base=5, theirs=6, mine=5),
    ]


def test_a_save_in_between_is_the_base_afterwards():
    book = remembered(title="Dune")
    book.title = "Emma"
    book.save()
    rival(book, stock=5)

    assert diffs.compare(refused(book)) == [FieldDiff(name="stock", base=0, theirs=5, mine=0)]


def test_where_nothing_was_remembered_every_difference_clashes():
    book = Book.objects.create(title="Dune", stock=1)
    rival(book, stock=5)
    book.title = "Emma"
    conflict = refused(book)

    found = diffs.compare(conflict)
    diffs.refresh(conflict, keep_mine=True)

    assert found == [
        FieldDiff(name="title", base=UNKNOWN, theirs="Dune", mine="Emma"),
        FieldDiff(name="stock", base=UNKNOWN, theirs=5, mine=1),
    ]
    assert [diff.clashes for diff in found] == [True, True]
    assert (book.title, book.stock, book.version) == ("Dune", 5, 2)
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN


def test_the_copy_that_mutate_gave_is_remembered():
    pk = Book.objects.create(title="Dune", stock=1).pk

    def scale(book: Book) -> None:
        rival(book, notes="theirs")
        book.stock += 1

    with pytest.raises(occ.Conflict) as caught:
        Book.objects.mutate(pk, scale, backoff=occ.Backoff(attempts=1), atomic=False)

    assert [(diff.name, diff.clashes) for diff in diffs.compare(caught.value)] == [("stock", False), ("notes", False)]


def test_what_was_typed_as_text_is_compared_as_what_it_says():
    book = remembered(title="Dune", stock=1, price=2)
    rival(book, notes="theirs")
    book.stock, book.price = "1", "2.00"

    assert [diff.name for diff in diffs.compare(refused(book))] == ["notes"]


def test_derived_columns_are_left_out_and_follow_the_row():
    member = Member.objects.create(name="Ada")
    diffs.remember(member)
    Member._base_manager.filter(pk=member.pk).update(name="Eva", loans=3)
    with pytest.raises(occ.Conflict) as caught:
        member.save()

    found = diffs.refresh(caught.value, keep_mine=True)

    assert found == [FieldDiff(name="name", base="Ada", theirs="Eva", mine="Ada")]
    assert (member.name, member.loans) == ("Eva", 3)


def test_a_conflict_caught_in_a_block_is_refreshed_from_the_row_that_refused_it():
    book = remembered(title="Dune", stock=1)

    with transaction.atomic():
        rival(book, stock=5)
        book.title = "Emma"
        diffs.refresh(refused(book), keep_mine=True)
        book.save()

    assert Book.objects.values_list("title", "stock").get() == ("Emma", 5)


def test_a_row_that_is_gone_cannot_be_compared_and_the_object_stays():
    book = remembered(title="Dune")
    Book.objects.all().delete()
    conflict = refused(book)

    with pytest.raises(Book.DoesNotExist):
        diffs.compare(conflict)
    with pytest.raises(Book.DoesNotExist):
        diffs.refresh(conflict)

    assert (conflict.reason, book.title, book.version) == ("deleted", "Dune", 1)


def test_a_conflict_without_its_object_says_what_to_do_instead():
    book = remembered(title="Dune")
    rival(book, stock=5)
    pickled = pickle.loads(pickle.dumps(refused(book)))

    with pytest.raises(ValueError, match="pickling drops it"):
        diffs.compare(pickled)


def test_a_conflict_of_many_rows_is_compared_row_by_row():
    book = remembered(title="Dune")
    rival(book, stock=5)
    with pytest.raises(occ.BulkConflict) as caught:
        Book.objects.bulk_update([book], ["title"])

    with pytest.raises(ValueError, match="each of its conflicts"):
        diffs.compare(caught.value)
    (conflict,) = caught.value.conflicts
    assert diffs.compare(conflict) == [FieldDiff(name="stock", base=0, theirs=5, mine=0)]


def test_an_object_whose_key_was_changed_is_not_compared_with_another_row():
    book = remembered(title="Dune")
    book.pk += 1

    with pytest.raises(ValueError, match="its key was changed"):
        diffs.compare(refused(book))

"""What an object remembers after writes that failed, were rolled back, or went through a copy of it."""

import copy

import pytest
from django.db import IntegrityError, models, transaction

import occ
from occ import diffs
from occ.bulk import BulkUpdate
from tests.library.models import Author, Book, Gate, Member, Shelf

pytestmark = pytest.mark.django_db(transaction=True)


def insert(author: Author) -> None:
    author.save()


def insert_in_a_block(author: Author) -> None:
    with transaction.atomic():
        author.save()


def insert_in_bulk(author: Author) -> None:
    Author.objects.bulk_create([author])


@pytest.mark.parametrize("write", [insert, insert_in_a_block, insert_in_bulk])
def test_a_failed_insert_does_not_count_as_having_read_the_row_that_was_in_the_way(write):
    Author.objects.create(pk=5, name="theirs")
    mine = Author(pk=5, name="mine")

    for _ in range(2):
        with pytest.raises(IntegrityError):
            write(mine)

    assert Author.objects.get().name == "theirs"
    assert mine._state.adding


def test_what_could_not_be_inserted_can_be_once_it_is_right():
    shelf = Shelf(code="x", label=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        shelf.save()

    shelf.label = "ok"
    shelf.save()

    assert Shelf.objects.get().label == "ok"


def test_a_counter_is_not_written_back_by_an_object_with_deferred_fields():
    pk = Member.objects.create(name="a").pk
    member = Member.objects.defer("active").get(pk=pk)
    Member.objects.filter(pk=pk).update(loans=5)

    member.name = "b"
    member.save()

    assert Member.objects.values_list("name", "loans").get() == ("b", 5)


@pytest.mark.parametrize("loaded", [["loans", "version"], ["name", "loans", "version"]])
def test_a_counter_that_is_named_is_written_whatever_is_deferred(loaded):
    pk = Member.objects.create(name="a").pk
    member = Member.objects.only(*loaded).get(pk=pk)

    member.loans = 7
    member.save(update_fields=[name for name in loaded if name != "version"])

    assert Member.objects.get().loans == 7


def test_a_copy_that_was_saved_does_not_change_what_the_original_read():
    pk = Book.objects.create(title="Dune", stock=1).pk
    mine = Book.objects.get(pk=pk)
    diffs.remember(mine)
    theirs = copy.copy(mine)
    theirs.title = "Emma"
    theirs.save()

    mine.stock = 4
    with pytest.raises(occ.Conflict) as caught:
        mine.save()
    diffs.refresh(caught.value, keep_mine=True)
    mine.save()

    assert Book.objects.values_list("title", "stock").get() == ("Emma", 4)


def test_what_was_refreshed_is_what_the_object_has_read():
    pk = Book.objects.create(title="Mug", stock=1).pk
    mine = Book.objects.get(pk=pk)
    diffs.remember(mine)
    Book.objects.filter(pk=pk).update(title="Big")
    mine.refresh_from_db()
    Book.objects.filter(pk=pk).update(title="Mug")

    mine.stock = 4
    with pytest.raises(occ.Conflict) as caught:
        mine.save()
    diffs.refresh(caught.value, keep_mine=True)
    mine.save()

    assert Book.objects.values_list("title", "stock").get() == ("Mug", 4)


def test_mutate_writes_what_a_rolled_back_save_inside_it_did_not():
    pk = Book.objects.create(title="a", stock=0).pk

    def change(book: Book) -> None:
        try:
            with transaction.atomic():
                book.stock = 5
                book.save()
                raise KeyError
        except KeyError:
            pass

    saved = Book.objects.mutate(pk, change)

    assert (saved.stock, saved.version) == Book.objects.values_list("stock", "version").get() == (5, 2)


def test_apply_returns_what_it_wrote_also_when_that_leaves_the_filter():
    gate = Gate.objects.create(name="g")
    Gate.objects.apply(gate.pk, {"size": 7}, manager="a")

    applied = Gate.objects.filter(size=7).apply(gate.pk, {}, manager="a")

    assert applied.size == Gate.objects.get().size == 3


class UpperField(models.TextField):
    """Has SQL of its own around its value."""

    def get_placeholder(self, value, compiler, connection):
        return "UPPER(%s)"

    def get_placeholder_sql(self, value, compiler, connection):
        return "UPPER(%s)", (value,)


@pytest.mark.parametrize(("kind", "fast"), [(models.TextField, True), (UpperField, False)])
def test_bulk_update_leaves_fields_with_sql_of_their_own_to_the_slow_way(kind, fast):
    field = kind(name="title")
    field.set_attributes_from_name("title")
    field.model = Book

    assert BulkUpdate(Book, "default", [], [field]).is_fast() is fast

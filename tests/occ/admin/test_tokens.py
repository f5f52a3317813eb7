"""A missing, foreign, mutilated or replayed token is a conflict: never a pass, never an error of the server."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from occ.forms import read_token
from tests.library.models import Book
from tests.occ.admin.editors import Editor


@pytest.fixture
def other(book: Book) -> Book:
    return Book.objects.create(title="Another")


def test_the_token_tells_what_the_page_showed(ann: Editor, book: Book) -> None:
    page = ann.open(book)

    token = read_token(page.data["occ_token"])

    assert token is not None
    assert (token.model, token.pk, token.version, token.opened_version) == ("library.Book", str(book.pk), 1, 1)
    assert token.base == {
        "title": "Book 1",
        "stock": "1",
        "price": "50.00",
        "notes": "Reprint planned\nfor spring.",
        "details": "{}",
        "author": str(book.author_id),
        "tags": [],
    }
    assert 'autocomplete="off"' in page.html.split('name="occ_token"')[1].split(">")[0]


def test_long_values_are_not_in_the_page_twice(ann: Editor, bob: Editor, book: Book) -> None:
    Book.objects.filter(pk=book.pk).update(notes="long " * 2000)
    page = ann.open(book)
    assert len(page.data["occ_token"]) < 1000
    bob.open(book)
    ann.submit(title="Book One")

    page = bob.submit(notes="short")

    assert page.status == 409
    page = bob.submit(follow=True)
    book.refresh_from_db()
    assert (book.title, book.notes) == ("Book One", "short")


def test_a_long_value_that_only_others_changed_is_kept_as_theirs(ann: Editor, bob: Editor, book: Book) -> None:
    long = "long\n" * 2000
    Book.objects.filter(pk=book.pk).update(notes=long)
    bob.open(book)
    ann.open(book)
    ann.submit(notes="short")

    page = bob.submit(title="Book One")

    assert page.status == 409
    assert page.data["notes"] == "short"
    bob.submit("_occ_overwrite")
    book.refresh_from_db()
    assert (book.title, book.notes) == ("Book One", long.rstrip())


@pytest.mark.parametrize("forged", [None, "", "x", "\x00", "ä:ö", "eyJhIjoxfQ:1abc:def"])
def test_a_token_that_is_none_is_a_conflict(ann: Editor, book: Book, forged: str | None) -> None:
    ann.open(book)

    page = ann.submit(title="Book One", occ_token=forged)

    assert page.status == 409
    assert "this page did not say which version of the book you opened" in page.text
    assert "Title choose (not recorded) Keep Book 1: Title Use Book One: Title" in page.text
    assert Book.objects.get().title == "Book 1"
    ann.submit(occ_choice_title="mine")
    assert Book.objects.get().title == "Book One"


def test_a_token_of_another_object_is_a_conflict(ann: Editor, book: Book, other: Book) -> None:
    foreign = ann.open(other).data["occ_token"]
    ann.open(book)

    page = ann.submit(title="Book One", occ_token=foreign)

    assert page.status == 409
    assert Book.objects.get(pk=book.pk).title == "Book 1"


def test_a_replayed_token_is_stale(ann: Editor, book: Book) -> None:
    old = ann.open(book).data["occ_token"]
    ann.submit(title="Book One")
    ann.open(book)

    page = ann.submit(title="Book Two", occ_token=old)

    assert page.status == 409
    assert Book.objects.get().title == "Book One"


def test_a_hidden_field_restored_on_a_newer_page_takes_nothing_back(ann: Editor, book: Book) -> None:
    """Firefox puts what fields held before a reload into the reloaded page, unless ``autocomplete`` is off."""
    old = ann.open(book).data["occ_token"]
    Book.objects.update(title="Book One", price="99.00")
    ann.open(book)

    page = ann.submit(stock="5", price="45.00", occ_token=old)

    assert page.status == 409
    assert "Price choose 50.00 Keep 99.00: Price Use 45.00: Price" in page.text
    assert "Title same in both Book 1 Book One Book One" in page.text
    ann.submit(occ_choice_price="theirs")
    assert Book.objects.values_list("title", "stock", "version").get() == ("Book One", 5, 3)


def test_edits_restored_on_a_newer_page_are_edits_of_the_newer_page(ann: Editor, book: Book) -> None:
    ann.open(book)
    Book.objects.update(title="Book One", price="99.00")
    ann.open(book)

    page = ann.submit(stock="5")

    assert page.status == 302
    assert Book.objects.values_list("title", "stock", "version").get() == ("Book One", 5, 3)


def test_the_back_button_shows_ones_own_save_as_a_conflict_not_as_a_pass(ann: Editor, book: Book) -> None:
    before = ann.open(book)
    ann.submit(title="Book One", stock="2")
    ann.page = before

    page = ann.submit(title="Book Two")

    assert page.status == 409
    assert "Title choose Book 1 Keep Book One: Title Use Book Two: Title" in page.text
    assert "Stock theirs kept 1 2" in page.text


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    where=st.integers(0, 99),
    mutilation=st.sampled_from(["cut the end", "cut the start", "replace", "insert", "instead"]),
    text=st.text(min_size=1, max_size=20),
)
def test_no_mutilated_token_passes(ann: Editor, book: Book, where: int, mutilation: str, text: str) -> None:
    genuine = ann.open(book).data["occ_token"]
    at = len(genuine) * where // 100
    forged = {
        "cut the end": genuine[:at],
        "cut the start": genuine[at + 1 :],
        "replace": genuine[:at] + text + genuine[at + len(text) :],
        "insert": genuine[:at] + text + genuine[at:],
        "instead": text,
    }[mutilation]
    assume(forged != genuine)

    page = ann.submit(title="Forged", occ_token=forged)

    assert page.status == 409
    assert Book.objects.get().title == "Book 1"

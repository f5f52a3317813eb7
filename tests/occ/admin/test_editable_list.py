"""Lists with editable columns: several rows in one submit, all or nothing."""

import re

import pytest

from tests.library.models import Book, Loan, Shelf
from tests.occ.admin.editors import Editor


@pytest.fixture
def books(db: None, ann: Editor, bob: Editor) -> list[Book]:
    ann.site = bob.site = "tables"
    return [Book.objects.create(title=title, stock=1, price="5.00") for title in ("A", "B", "C")]


def stocks() -> list[tuple[str, int, int]]:
    return list(Book.objects.order_by("pk").values_list("title", "stock", "version"))


def test_fresh_rows_are_saved(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)

    page = ann.submit(**{"form-0-stock": "10", "form-2-stock": "30"}, follow=True)

    assert "2 books were changed successfully." in page.text
    assert stocks() == [("A", 10, 2), ("B", 1, 1), ("C", 30, 2)]


def test_a_stale_row_stops_all_and_keeps_the_typing(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    ann.open_list(Book)
    ann.submit(**{"form-1-stock": "7"})

    page = bob.submit(**{"form-0-stock": "10", "form-1-stock": "20"})

    assert page.status == 409
    assert "Nothing was saved: a row was changed after you opened this page: B." in page.text
    assert "Stock choose 1 Keep 7: Stock Use 20: Stock" in page.text
    assert [page.data[f"form-{row}-stock"] for row in range(3)] == ["10", "20", "1"]
    assert "changed successfully" not in page.text
    assert stocks() == [("A", 1, 1), ("B", 7, 2), ("C", 1, 1)]
    page = bob.submit(**{"form-1-occ_choice_stock": "mine"}, follow=True)
    assert "2 books were changed successfully." in page.text
    assert stocks() == [("A", 10, 2), ("B", 20, 3), ("C", 1, 1)]


def test_rows_that_only_others_changed_are_left_as_they_are(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    ann.open_list(Book)
    ann.submit(**{"form-1-stock": "7"})

    page = bob.submit(**{"form-0-stock": "10"}, follow=True)

    assert "1 book was changed successfully." in page.text
    assert stocks() == [("A", 10, 2), ("B", 7, 2), ("C", 1, 1)]


def test_labels_stay_beside_their_own_rows_when_the_order_changed(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    Book.objects.filter(title="A").update(title="Z")

    page = bob.submit(**{"form-1-stock": "none"})

    assert page.status == 200
    assert re.findall(r'class="field-title"><a [^>]*>(.)</a>', page.html) == ["Z", "B", "C"]
    assert [page.data[f"form-{row}-id"] for row in range(3)] == [str(book.pk) for book in books]


def test_the_check_survives_a_validation_error_in_between(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    bob.submit(**{"form-1-stock": "none"})
    ann.open_list(Book)
    ann.submit(**{"form-1-stock": "7"})

    page = bob.submit(**{"form-1-stock": "20"})

    assert page.status == 409
    assert stocks()[1] == ("B", 7, 2)


def test_a_row_deleted_meanwhile_is_told_with_what_was_typed(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    books[1].delete()

    page = bob.submit(**{"form-0-stock": "10", "form-1-stock": "20"})

    assert page.status == 409
    assert "This book was deleted after you opened the page." in page.text
    assert "You had changed: Stock = 20" in page.text
    assert stocks() == [("A", 1, 1), ("C", 1, 1)]
    page = bob.submit(follow=True)
    assert "1 book was changed successfully." in page.text
    assert stocks() == [("A", 10, 2), ("C", 1, 1)]


def test_an_untouched_row_deleted_meanwhile_is_in_nobodys_way(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    books[1].delete()

    page = bob.submit(**{"form-0-stock": "10"}, follow=True)

    assert "1 book was changed successfully." in page.text
    assert stocks() == [("A", 10, 2), ("C", 1, 1)]


def test_a_list_without_tokens_saves_nothing(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)

    page = ann.submit(**{"form-1-stock": "20", "form-1-occ_token": None})

    assert page.status == 409
    assert stocks() == [("A", 1, 1), ("B", 1, 1), ("C", 1, 1)]


def test_keys_may_be_uuids_and_slugs(ann: Editor, bob: Editor, books: list[Book]) -> None:
    loan = Loan.objects.create(book=books[0])
    shelf = Shelf.objects.create(code="a-1", label="old")
    for row, typed in ((loan, {"form-0-returned": "on"}), (shelf, {"form-0-label": "mine"})):
        bob.open_list(type(row))
        ann.open_list(type(row))
        ann.submit(**typed)
        assert bob.submit(**{**typed, "form-0-label": "other"}).status in (302, 409)

    loan.refresh_from_db()
    shelf.refresh_from_db()
    assert (loan.returned, shelf.label) == (True, "mine")

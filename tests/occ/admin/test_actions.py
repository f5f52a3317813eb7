"""Actions run on the rows as the page showed them, or not at all."""

import django
import pytest

from tests.library.models import Book
from tests.occ.admin.editors import Editor


@pytest.fixture
def books(db: None, ann: Editor, bob: Editor) -> list[Book]:
    ann.site = bob.site = "tables"
    return [Book.objects.create(title=title, price="5.00") for title in ("A", "B", "C")]


def prices() -> list[tuple[str, str, int]]:
    return [(book.title, str(book.price), book.version) for book in Book.objects.order_by("pk")]


def test_fresh_rows_are_acted_upon(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)

    page = ann.submit("index", action="double_the_price", _selected_action=[books[0].pk, books[2].pk], follow=True)

    assert "2 prices doubled." in page.text
    assert prices() == [("A", "10.00", 2), ("B", "5.00", 1), ("C", "10.00", 2)]


def test_a_stale_row_stops_the_action_and_keeps_the_selection(ann: Editor, bob: Editor, books: list[Book]) -> None:
    bob.open_list(Book)
    Book.objects.filter(pk=books[0].pk).update(price="7.00")

    page = bob.submit("index", action="double_the_price", _selected_action=[books[0].pk, books[2].pk])

    assert page.status == 409
    assert "Nothing was done: a selected row was changed or deleted after you opened this page: A." in page.text
    assert page.data["_selected_action"] == [str(books[0].pk), str(books[2].pk)]
    assert page.data["action"] == "double_the_price"
    assert prices() == [("A", "7.00", 2), ("B", "5.00", 1), ("C", "5.00", 1)]
    page = bob.submit("index", follow=True)
    assert "2 prices doubled." in page.text
    assert prices() == [("A", "14.00", 3), ("B", "5.00", 1), ("C", "10.00", 2)]


def test_stale_rows_that_are_not_selected_do_not_matter(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    Book.objects.filter(pk=books[0].pk).update(price="7.00")

    page = ann.submit("index", action="double_the_price", _selected_action=[books[1].pk], follow=True)

    assert "1 prices doubled." in page.text


def test_a_deleted_row_stops_the_action_too(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    gone = books[0].pk
    books[0].delete()

    page = ann.submit("index", action="double_the_price", _selected_action=[gone, books[1].pk])

    assert page.status == 409
    assert f"#{gone}" in page.text
    assert prices() == [("B", "5.00", 1), ("C", "5.00", 1)]


def test_rows_without_or_with_forged_tokens_are_not_acted_upon(ann: Editor, books: list[Book]) -> None:
    for forged in (None, "x", "library.Book:1:1:forged"):
        ann.open_list(Book)

        page = ann.submit("index", action="double_the_price", _selected_action=[books[0].pk], occ_shown=forged)

        assert page.status == 409
    assert prices()[0] == ("A", "5.00", 1)


def test_an_action_may_opt_out(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    Book.objects.filter(pk=books[0].pk).update(price="7.00")

    page = ann.submit("index", action="export", _selected_action=[books[0].pk])

    assert (page.status, page.html) == (200, "A 7.00\n")


def test_deleting_selected_rows_asks_and_deletes(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    page = ann.submit("index", action="delete_selected", _selected_action=[books[0].pk, books[1].pk])
    assert page.status == 200
    assert "Are you sure you want to delete the selected books?" in page.text

    page = ann.submit("", follow=True)

    assert "Successfully deleted 2 books." in page.text
    assert prices() == [("C", "5.00", 1)]


def test_deleting_selected_rows_that_changed_while_it_asked_deletes_nothing(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    ann.submit("index", action="delete_selected", _selected_action=[books[0].pk, books[1].pk])
    Book.objects.filter(pk=books[1].pk).update(price="7.00")

    page = ann.submit("")

    assert page.status == 409
    assert "opened this page: B." in page.text
    assert len(prices()) == 3


def test_all_rows_across_pages_are_checked_as_far_as_they_were_shown(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    Book.objects.filter(pk=books[2].pk).update(price="7.00")

    page = ann.submit("index", action="double_the_price", _selected_action=[books[0].pk], select_across="1")

    assert page.status == 409
    assert prices() == [("A", "5.00", 1), ("B", "5.00", 1), ("C", "7.00", 2)]


def test_no_action_and_no_selection_are_as_in_django(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)
    assert "No action selected." in ann.submit("index", _selected_action=[books[0].pk], follow=True).text
    ann.open_list(Book)
    page = ann.submit("index", action="double_the_price", follow=True)
    assert "Items must be selected in order to perform actions on them." in page.text


def test_an_action_that_meets_another_writer_did_nothing(ann: Editor, books: list[Book]) -> None:
    ann.open_list(Book)

    # The action saves an object that it read before somebody else, here itself, wrote the row.
    page = ann.submit("index", action="double_the_price_late", _selected_action=[books[0].pk])

    assert page.status == 409
    assert "Nothing was done: somebody else wrote at the same moment. Please try again." in page.text
    assert prices()[0] == ("A", "5.00", 1)


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Actions on the change form are new in Django 6.1.")
def test_an_action_of_the_change_form_acts_on_what_the_form_showed(ann: Editor, books: list[Book]) -> None:
    ann.open(books[0])
    Book.objects.filter(pk=books[0].pk).update(price="7.00")
    action = {"CHANGE_FORM-action": "archive", "_selected_action": str(books[0].pk)}

    page = ann.submit("index", **action)

    assert page.status == 409
    assert "Nothing was done: a selected row was changed or deleted after you opened this page: A." in page.text
    assert page.data["price"] == "7.00"
    assert Book.objects.get(pk=books[0].pk).notes == ""
    ann.open(books[0])
    page = ann.submit("index", **action, follow=True)
    assert "Archived." in page.text
    assert Book.objects.get(pk=books[0].pk).notes == "archived"

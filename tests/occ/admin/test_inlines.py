"""Rows of another model on the change form: each guarded by its own version."""

import pytest

from tests.library.models import Book, Chapter
from tests.occ.admin.editors import Editor


@pytest.fixture
def chapters(book: Book, ann: Editor, bob: Editor) -> list[Chapter]:
    ann.site = bob.site = "tables"
    return [Chapter.objects.create(book=book, title=f"Ch {n}", pages=10 * n) for n in (1, 2, 3)]


def rows() -> list[tuple[str, int, int]]:
    return list(Chapter.objects.order_by("pk").values_list("title", "pages", "version"))


def test_a_fresh_row_is_saved_and_the_others_are_not_written(ann: Editor, book: Book, chapters: list[Chapter]) -> None:
    ann.open(book)

    page = ann.submit(**{"chapters-1-pages": "25"}, follow=True)

    assert "changed successfully" in page.text
    assert rows() == [("Ch 1", 10, 1), ("Ch 2", 25, 2), ("Ch 3", 30, 1)]
    book.refresh_from_db()
    assert book.version == 1


def test_a_row_changed_by_both_is_shown_at_the_row(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-1-pages": "25"})

    page = bob.submit(title="Book One", **{"chapters-1-pages": "22", "chapters-2-title": "The end"})

    assert page.status == 409
    assert "Pages choose 20 Keep 25: Pages Use 22: Pages" in page.text
    assert page.data["chapters-2-title"] == "The end"
    assert rows() == [("Ch 1", 10, 1), ("Ch 2", 25, 2), ("Ch 3", 30, 1)]
    book.refresh_from_db()
    assert (book.title, book.version) == ("Book 1", 1)
    page = bob.submit(**{"chapters-1-occ_choice_pages": "mine"}, follow=True)
    assert "changed successfully" in page.text
    assert rows() == [("Ch 1", 10, 1), ("Ch 2", 22, 3), ("The end", 30, 2)]
    book.refresh_from_db()
    assert (book.title, book.version) == ("Book One", 2)


def test_untouched_rows_and_the_untouched_parent_never_conflict(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", **{"chapters-1-pages": "25"})

    page = bob.submit(**{"chapters-0-pages": "11"}, follow=True)

    assert "changed successfully" in page.text
    assert rows() == [("Ch 1", 11, 2), ("Ch 2", 25, 2), ("Ch 3", 30, 1)]
    book.refresh_from_db()
    assert (str(book.price), book.version) == ("99.00", 2)


def test_a_row_deleted_meanwhile_can_be_left_deleted(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-1-DELETE": "on"})

    page = bob.submit(**{"chapters-1-pages": "222", "chapters-2-pages": "33"})

    assert page.status == 409
    assert "This chapter was deleted after you opened the page." in page.text
    assert "You had changed: Pages = 222 Leave it deleted Add it again as below" in page.text
    assert page.data["chapters-1-pages"] == "222"
    assert rows() == [("Ch 1", 10, 1), ("Ch 3", 30, 1)]
    bob.submit(**{"chapters-1-occ_choice_row": "leave"})
    assert rows() == [("Ch 1", 10, 1), ("Ch 3", 33, 2)]


def test_a_row_deleted_meanwhile_can_be_added_again(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-1-DELETE": "on"})
    bob.submit(**{"chapters-1-pages": "222"})

    page = bob.submit(**{"chapters-1-occ_choice_row": "again"}, follow=True)

    assert "changed successfully" in page.text
    assert rows() == [("Ch 1", 10, 1), ("Ch 3", 30, 1), ("Ch 2", 222, 1)]


def test_an_untouched_row_deleted_meanwhile_stays_deleted(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-1-DELETE": "on"})

    page = bob.submit(**{"chapters-2-pages": "33"}, follow=True)

    assert "changed successfully" in page.text
    assert rows() == [("Ch 1", 10, 1), ("Ch 3", 33, 2)]


def test_deleting_a_row_that_was_changed_meanwhile_is_asked_about(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-1-pages": "25"})

    page = bob.submit(**{"chapters-1-DELETE": "on"})

    assert page.status == 409
    assert "Pages theirs kept 20 25" in page.text
    assert rows()[1] == ("Ch 2", 25, 2)
    bob.submit()
    assert rows() == [("Ch 1", 10, 1), ("Ch 3", 30, 1)]


def test_new_rows_are_kept_on_the_conflict_page(ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(title="Book A")

    page = bob.submit(title="Book B", **{"chapters-3-title": "New", "chapters-3-pages": "4"})

    assert page.status == 409
    assert page.data["chapters-3-title"] == "New"
    bob.submit(occ_choice_title="mine")
    assert rows()[3] == ("New", 4, 1)

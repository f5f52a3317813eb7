"""Who changed it: from the admin's log where it was there, and nobody is named for what a program wrote."""

import pytest

from tests.library.models import Book, Chapter
from tests.occ.admin.editors import Editor


def test_a_program_that_wrote_after_a_person_is_told_too(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", stock="11")
    Book.objects.update(stock=12)

    page = bob.submit(price="45.00")

    assert "· Stock and Price" not in page.text
    assert "· Stock, Price Another program" in page.text
    assert "Keep 99.00: Price Use" in page.text


def test_each_field_tells_who_changed_it_when_there_were_several(ann: Editor, bob: Editor, book: Book) -> None:
    eve = Editor("eve", superuser=True)
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    eve.open(book)
    eve.submit(stock="11")

    page = bob.submit(price="45.00")

    assert "Another program" not in page.text
    assert "Keep 99.00: Price ann, " in page.text
    assert "Stock theirs kept 1 11 eve, " in page.text


def test_ones_own_save_just_before_opening_is_no_change_since(ann: Editor, book: Book) -> None:
    ann.open(book)
    ann.submit("_continue", title="Book One", follow=True)
    Book.objects.update(title="Book Two")

    page = ann.submit(title="Book Three")

    assert page.status == 409
    assert "Another program" in page.text
    assert "ann ·" not in page.text


def test_who_changed_and_deleted_rows_is_in_the_log_of_the_parent(ann: Editor, bob: Editor, book: Book) -> None:
    ann.site = bob.site = "tables"
    for title in ("Ch 1", "Ch 2"):
        Chapter.objects.create(book=book, title=title)
    bob.open(book)
    ann.open(book)
    ann.submit(**{"chapters-0-pages": "5", "chapters-1-DELETE": "on"})

    page = bob.submit(**{"chapters-0-pages": "6", "chapters-1-pages": "7"})

    assert page.status == 409
    assert "Another program" not in page.text
    assert page.html.count("<bdi>ann</bdi>") == 2
    assert "deleted “Ch 2”" in page.text


def test_a_row_of_a_list_that_is_gone_is_named(ann: Editor, bob: Editor, book: Book) -> None:
    ann.site = bob.site = "tables"
    key = book.pk
    bob.open_list(Book)
    ann.open(book, "delete")
    ann.submit("")

    page = bob.submit(**{"form-0-stock": "5"})

    assert f"This book was deleted after you opened the page. #{key} ann ·" in page.text
    assert "deleted “Book 1”" in page.text
    assert page.radios == {}


@pytest.mark.parametrize("site", ["editors", "whole"])
def test_the_page_of_an_object_that_is_gone_offers_what_helps(bob: Editor, book: Book, site: str) -> None:
    bob.site = site
    bob.open(book)
    book.delete()

    page = bob.submit(title="Book One")

    assert "saving again is enough" not in page.text
    assert "None" not in page.text
    assert "/None/" not in page.html
    assert set(page.buttons) == {"_saveasnew"}

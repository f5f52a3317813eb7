"""What an open form learns of its object by asking."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.library.models import Book, Shelf
from tests.occ.admin.editors import Editor


def ask(editor: Editor, etag: str | None = None) -> Any:
    """Ask as the page's script does."""
    attributes = editor.page.html.split('name="occ_token"')[1].split(">")[0]
    url = attributes.split('data-occ-state-url="')[1].split('"')[0].replace("&amp;", "&")
    shown = attributes.split('data-occ-etag="')[1].split('"')[0].replace("&quot;", '"')
    return editor.client.get(url, headers={"If-None-Match": etag or shown})


def test_no_news_is_304_without_a_body(ann: Editor, book: Book) -> None:
    ann.open(book)

    answer = ask(ann)

    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", '"1"')


def test_news_name_the_person(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")

    answer = ask(bob)

    assert answer.status_code == 200
    assert answer.json()["text"].startswith("ann saved this book at ")
    assert ask(bob, answer.headers["ETag"]).status_code == 304


def test_ones_own_save_in_another_tab_is_told_as_such(ann: Editor, book: Book) -> None:
    tab = ann.open(book)
    ann.submit(price="99.00")
    ann.page = tab

    assert ask(ann).json()["text"].startswith("You saved this book elsewhere at ")


def test_a_program_has_no_name(ann: Editor, book: Book) -> None:
    ann.open(book)
    Book.objects.filter(pk=book.pk).update(price="99.00")

    assert ask(ann).json()["text"].startswith("Another program changed this book.")


def test_a_deleted_object_is_told_once(ann: Editor, book: Book) -> None:
    ann.open(book)
    book.delete()

    answer = ask(ann)

    assert answer.json()["text"].startswith("This book was deleted.")
    assert ask(ann, answer.headers["ETag"]).status_code == 304


def test_only_who_may_see_the_object_is_told(ann: Editor, book: Book) -> None:
    ann.open(book)
    eve = Editor("eve", permissions=("view_author",))
    eve.page = ann.page

    assert ask(eve).status_code == 403
    eve.client.logout()
    assert ask(eve).status_code == 302


def test_keys_that_are_no_numbers_work(ann: Editor) -> None:
    ann.site = "tables"
    ann.open(Shelf.objects.create(code="a_1-b", label="x"))

    assert ask(ann).status_code == 304


@pytest.mark.parametrize("opened", ["", "x", "99999999999999999999", "-1"])
def test_a_bent_address_is_no_error(ann: Editor, book: Book, opened: str) -> None:
    ann.open(book)
    url = f"/admin/library/book/{book.pk}/occ-state/?opened={opened}"

    assert ann.client.get(url).status_code == 200


def test_asking_costs_one_statement_beside_the_login(ann: Editor, book: Book) -> None:
    ann.open(book)
    with CaptureQueriesContext(connection) as captured:
        ask(ann)

    assert len(captured) == 3  # session, user, object

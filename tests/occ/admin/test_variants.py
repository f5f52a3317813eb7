"""What else a ModelAdmin may be: save_as, a popup, for viewing only, with keys that are no numbers, with everything."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import Model
from django.db.models.signals import pre_save

from tests.kit.sessions import Session
from tests.library.models import Book, Chapter, Loan, Shelf, Tag
from tests.occ.admin.editors import Editor


@pytest.fixture(autouse=True)
def whole_site(ann: Editor, bob: Editor) -> None:
    ann.site = bob.site = "whole"


@pytest.fixture
def chapters(book: Book) -> list[Chapter]:
    return [Chapter.objects.create(book=book, title=f"Ch {n}", pages=10 * n) for n in (1, 2)]


@pytest.fixture
def overtaken(second_session: Session) -> Iterator[None]:
    """Another session writes chapter 2 between its validation and its UPDATE, once."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite lets nobody write while the admin's transaction is open.")
    done = []

    def receive(instance: Chapter, **kwargs: Any) -> None:
        if instance.title == "Ch 2" and not done:
            done.append(True)
            second_session.run(lambda: Chapter.objects.filter(pk=instance.pk).update(pages=99))

    pre_save.connect(receive, sender=Chapter)
    yield
    pre_save.disconnect(receive, sender=Chapter)


def everything() -> list[Any]:
    return [
        *Book.objects.order_by("pk").values_list("title", "version", "tags__name"),
        *Chapter.objects.order_by("pk").values_list("title", "pages", "version"),
        LogEntry.objects.count(),
    ]


def test_parent_relations_rows_and_log_are_rolled_back_together(
    ann: Editor, book: Book, chapters: list[Chapter], overtaken: None
) -> None:
    fiction = Tag.objects.create(name="fiction")
    ann.open(book)
    rows = {"chapters-0-pages": "11", "chapters-1-pages": "22", "chapters-2-title": "New", "chapters-2-pages": "3"}

    page = ann.submit(title="Book One", tags=[str(fiction.pk)], **rows)

    assert page.status == 409
    assert everything() == [("Book 1", 1, None), ("Ch 1", 10, 1), ("Ch 2", 99, 2), 0]
    assert {name: page.data[name] for name in ("title", "tags", *rows)} == {
        "title": "Book One",
        "tags": [str(fiction.pk)],
        **rows,
    }
    ann.submit(**{"chapters-1-occ_choice_pages": "mine"})
    assert everything() == [("Book One", 2, "fiction"), ("Ch 1", 11, 2), ("Ch 2", 22, 3), ("New", 3, 1), 1]


def test_tokens_that_rows_swapped_are_a_conflict(ann: Editor, book: Book, chapters: list[Chapter]) -> None:
    page = ann.open(book)
    tokens = [page.data[f"chapters-{n}-occ_token"] for n in (1, 0)]

    page = ann.submit(
        **{"chapters-0-pages": "11", "chapters-0-occ_token": tokens[0], "chapters-1-occ_token": tokens[1]}
    )

    assert page.status == 409
    assert everything() == [("Book 1", 1, None), ("Ch 1", 10, 1), ("Ch 2", 20, 1), 0]


def test_save_as_new_of_a_stale_page_leaves_the_row_alone(
    ann: Editor, bob: Editor, book: Book, chapters: list[Chapter]
) -> None:
    page = bob.open(book)
    assert page.buttons["_saveasnew"] == "Save as new"
    ann.open(book)
    ann.submit(title="Book One")

    page = bob.submit("_saveasnew", title="Book Two", follow=True)

    assert "was added successfully" in page.text
    assert list(Book.objects.order_by("pk").values_list("title", "version")) == [("Book One", 2), ("Book Two", 1)]
    copies = Chapter.objects.filter(book__title="Book Two")
    assert list(copies.order_by("pk").values_list("title", "pages")) == [("Ch 1", 10), ("Ch 2", 20)]


def test_save_of_a_stale_page_with_save_as_is_a_conflict(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(title="Book One")

    page = bob.submit(title="Book Two")

    assert page.status == 409
    assert page.buttons["_saveasnew"]
    assert Book.objects.get().title == "Book One"


def test_masked_columns_are_in_no_table_and_in_no_token(ann: Editor, bob: Editor, book: Book) -> None:
    Book.objects.update(notes="secret-one")
    bob.open(book)
    carl = Editor("carl", superuser=True, site="whole")
    carl.open(book, "delete")
    Book.objects.update(notes="secret-two")

    page = bob.submit(title="Book One", notes="secret-three")
    asked_again = carl.submit("")

    assert page.status == asked_again.status == 409
    assert "Notes choose •••••• Keep ••••••: Notes Use ••••••: Notes" in page.text
    assert "secret" not in asked_again.html
    assert "secret-one" not in page.html
    assert "secret" not in page.html.split("<table", 1)[1].split("</table>")[0]


def test_a_conflict_in_a_popup_stays_there_until_it_is_settled(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(title="Book One")

    page = bob.submit(title="Book Two", _popup="1")

    assert page.status == 409
    assert page.data["_popup"] == "1"
    page = bob.submit(occ_choice_title="mine")
    assert page.status == 200
    assert "popup_response" in page.html
    assert Book.objects.get().title == "Book Two"


def test_who_may_only_view_cannot_submit(book: Book, ann: Editor) -> None:
    eve = Editor("eve", permissions=("view_book",), site="whole")
    eve.open(book)
    stolen = ann.open(book).data

    page = eve.submit(**{**stolen, "title": "Mine"})

    assert page.status == 403
    assert Book.objects.get().title == "Book 1"


@pytest.fixture(params=["uuid", "text"])
def row_and_edits(request: pytest.FixtureRequest, book: Book) -> tuple[Model, dict[str, str], dict[str, str]]:
    """A row, the edit of one person and that of another."""
    if request.param == "uuid":
        other = Book.objects.create(title="Other")
        return Loan.objects.create(book=book), {"returned": "on"}, {"book": str(other.pk)}
    return Shelf.objects.create(code="a_1-b", label="old"), {"label": "hers"}, {"label": "his"}


def test_keys_may_be_uuids_and_texts(
    ann: Editor, bob: Editor, row_and_edits: tuple[Model, dict[str, str], dict[str, str]]
) -> None:
    row, hers, his = row_and_edits
    bob.open(row)
    ann.open(row)
    assert "changed successfully" in ann.submit(**hers, follow=True).text

    assert bob.submit(**his).status == 409
    page = bob.submit(occ_choice_label="mine", follow=True)

    assert "changed successfully" in page.text
    expected = {"returned": True, "book__title": "Other"} if isinstance(row, Loan) else {"label": "his"}
    assert type(row)._default_manager.values(*expected).get(pk=row.pk) == expected
    bob.open(row, "delete")
    assert bob.submit("").status == 302
    assert not type(row)._default_manager.exists()

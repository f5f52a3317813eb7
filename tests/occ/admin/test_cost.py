"""What the guard costs in the admin: not one statement more than Django's own ModelAdmin for the same page."""

from collections.abc import Callable

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext

from tests.library.models import Book, Chapter, Gate, Tag
from tests.occ.admin.editors import Editor, Page


@pytest.fixture(params=["versions", "versions and managers"])
def row(request: pytest.FixtureRequest, book: Book) -> Model:
    if request.param == "versions and managers":
        return Gate.objects.create(name="North", replicas=1)
    book.tags.add(Tag.objects.create(name="fiction"))
    Chapter.objects.create(book=book, title="Ch 1")
    return book


def sites(row: Model) -> tuple[str, str]:
    """The site where the row's ModelAdmin is guarded, and the one where it is not."""
    return "whole" if isinstance(row, Book) else "editors", "stock"


def statements(act: Callable[[], Page]) -> list[str]:
    """The kinds of the statements that a request takes, in their order."""
    ContentType.objects.clear_cache()  # else whoever asks first pays for both
    with CaptureQueriesContext(connection) as captured:
        page = act()
    assert page.status in (200, 302)
    return [query["sql"].split(" ", 1)[0] for query in captured]


@pytest.mark.parametrize("view", ["change", "delete", "list"])
def test_a_page(ann: Editor, row: Model, view: str) -> None:
    taken = []
    for ann.site in sites(row):
        page = ann.open_list(type(row)) if view == "list" else ann.open(row, view)
        taken.append(statements(lambda: Page(ann.client.get(ann.url))))
        assert any("occ_token" in name for name in page.data) == (ann.site != "stock")

    assert taken[0] == taken[1] != []


def test_a_successful_save(ann: Editor, row: Model) -> None:
    taken = []
    for ann.site in sites(row):
        ann.open(row)
        name = "title" if isinstance(row, Book) else "name"
        typed = {name: f"Saved on {ann.site}"}
        taken.append(statements(lambda typed=typed: ann.submit(**typed)))

    assert taken[0] == taken[1] != []


def test_a_successful_save_with_a_row_of_an_inline(ann: Editor, book: Book) -> None:
    Chapter.objects.create(book=book, title="Ch 1")
    taken = []
    for ann.site in sites(book):
        ann.open(book)
        typed = {"title": f"Saved on {ann.site}", "chapters-0-title": f"Saved on {ann.site}"}
        taken.append(statements(lambda typed=typed: ann.submit(**typed)))

    assert taken[0] == taken[1] != []


def test_a_successful_save_of_a_list(ann: Editor, row: Model) -> None:
    taken = []
    for ann.site in sites(row):
        page = ann.open_list(type(row))
        name = "form-0-stock" if isinstance(row, Book) else "form-0-replicas"
        typed = {name: str(int(page.data[name]) + 1)}
        taken.append(statements(lambda typed=typed: ann.submit(**typed)))

    assert taken[0] == taken[1] != []


def test_a_successful_deletion(ann: Editor, book: Book) -> None:
    taken = []
    for ann.site in sites(book):
        row = Book.objects.create(title=f"Deleted on {ann.site}")
        ann.open(row, "delete")
        taken.append(statements(lambda: ann.submit("")))

    assert taken[0] == taken[1] != []

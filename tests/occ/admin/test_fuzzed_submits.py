"""Whatever is sent to the admin: no error of the server, no write past the guard, no false "changed successfully"."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.library.models import Book, Chapter
from tests.occ.admin.editors import Editor

# The same examples each time: others can meet the OverflowError with which Django's own fields and lists ask SQLite for
# keys that are too large for it.
FUZZ = settings(
    derandomize=True,
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NASTY = [
    "",
    "x",
    "-5 OR 1=1",
    "\x00",
    "null",
    "[]",
    "999999999999999999999",
    "1e999",
    "theirs",
    "mine",
    "leave",
    "again",
    "on",
]
VALUES = st.none() | st.sampled_from(NASTY) | st.text(max_size=8)


@pytest.fixture
def rows(ann: Editor, bob: Editor, book: Book) -> Book:
    ann.site = bob.site = "tables"
    for number in (1, 2, 3):
        Chapter.objects.create(book=book, title=f"Ch {number}", pages=number)
    return book


def disturb(book: Book, how: str) -> None:
    """Let another program write between opening and submitting."""
    if how == "book":
        Book.objects.filter(pk=book.pk).update(price="99.00")
    elif how == "chapters":
        Chapter.objects.filter(book=book).update(pages=77)
        first = Chapter.objects.filter(book=book).first()
        if first:
            first.delete()
    elif how == "all":
        Book.objects.filter(pk=book.pk).delete()


def state() -> tuple[list[Any], list[Any]]:
    return list(Book.objects.order_by("pk").values()), list(Chapter.objects.order_by("pk").values())


@FUZZ
@given(data=st.data(), how=st.sampled_from(["nothing", "book", "chapters", "all"]))
def test_change_forms_with_anything_in_them(ann: Editor, rows: Book, data: st.DataObject, how: str) -> None:
    with transaction.atomic():
        page = ann.open(rows)
        names = sorted(page.data) + ["occ_choice_price", "chapters-1-occ_choice_pages", "chapters-0-occ_choice_row"]
        typed = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=5), label="typed")
        button = data.draw(st.sampled_from(["_save", "_continue", "_addanother", "_saveasnew", "_occ_overwrite", ""]))
        disturb(rows, how)
        before = state()

        page = ann.submit(button, **typed)

        assert page.status in (200, 302, 400, 409)
        if page.status != 302:
            assert state() == before
            assert "changed successfully" not in page.text
        transaction.set_rollback(True)


@FUZZ
@given(data=st.data(), how=st.sampled_from(["nothing", "book", "all"]))
def test_lists_with_anything_in_them(ann: Editor, rows: Book, data: st.DataObject, how: str) -> None:
    with transaction.atomic():
        Book.objects.create(title="Book 2")
        page = ann.open_list(Book)
        names = [*sorted(page.data), "_selected_action", "form-0-occ_choice_price"]
        typed = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=5), label="typed")
        button = data.draw(st.sampled_from(["_save", "index"]))
        disturb(rows, how)
        before = state()

        page = ann.submit(button, **typed)

        assert page.status in (200, 302, 400, 409)
        if page.status != 302:
            assert state() == before
            assert "changed successfully" not in page.text
        transaction.set_rollback(True)


@FUZZ
@given(typed=st.dictionaries(st.sampled_from(["occ_token", "post"]), VALUES, max_size=2), stale=st.booleans())
def test_deletions_with_anything_in_them(ann: Editor, rows: Book, typed: dict[str, Any], stale: bool) -> None:
    with transaction.atomic():
        ann.open(rows, "delete")
        if stale:
            disturb(rows, "book")

        page = ann.submit("", **typed)

        assert page.status in (200, 302, 409)
        assert Book.objects.exists() == (stale or "occ_token" in typed or page.status != 302)
        transaction.set_rollback(True)


@FUZZ
@given(data=st.data(), stock=st.sampled_from([1, 0, -1]))
def test_forms_that_depend_on_the_object_with_anything_in_them(
    ann: Editor, book: Book, settings: Any, data: st.DataObject, stock: int
) -> None:
    settings.ROOT_URLCONF, ann.site = "tests.occ.admin.widgets_site", "widgets"
    with transaction.atomic():
        page = ann.open(book)
        Book.objects.filter(pk=book.pk).update(stock=stock)
        ever_typed: set[str] = set()
        for _round in range(2):
            names = sorted(
                {*page.data, "notes", "price", "price_0", "occ_choice_price", "occ_choice_title"} - {"details"}
            )
            typed = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=4), label="typed")
            if str(typed.get("tags")).isdecimal():  # Django's own field asks SQLite for any number: an OverflowError
                typed["tags"] = "0"
            ever_typed |= typed.keys()
            before = state()

            page = ann.submit(data.draw(st.sampled_from(["_save", "_continue", "_occ_overwrite", ""])), **typed)

            assert page.status in (200, 302, 400, 409)
            if page.status == 302:
                break
            assert state() == before
        if "notes" not in ever_typed:
            assert Book.objects.get(pk=book.pk).notes == book.notes
        transaction.set_rollback(True)


def test_a_field_that_the_page_did_not_have_is_not_emptied_when_the_token_went_too(
    ann: Editor, book: Book, settings: Any
) -> None:
    settings.ROOT_URLCONF, ann.site = "tests.occ.admin.widgets_site", "widgets"
    page = ann.open(book)
    assert "notes" not in page.data
    Book.objects.filter(pk=book.pk).update(stock=0)  # its page has notes

    page = ann.submit("_save", occ_token=None)
    assert page.status == 409
    page = ann.submit("_occ_overwrite")

    assert page.status == 302
    assert Book.objects.get(pk=book.pk).notes == book.notes != ""


def test_a_key_that_no_row_can_have_is_no_error(ann: Editor, book: Book, settings: Any) -> None:
    settings.ROOT_URLCONF, ann.site = "tests.occ.admin.widgets_site", "widgets"
    ann.open(book)
    Book.objects.filter(pk=book.pk).update(stock=5)

    page = ann.submit("_save", author="9" * 21)

    assert page.status == 409
    assert "(not available)" in page.text


def test_a_file_where_none_is_expected_is_no_error(ann: Editor, rows: Book) -> None:
    ann.open(rows)
    Book.objects.filter(pk=rows.pk).update(price="99.00")

    page = ann.submit(title="Book One", price=SimpleUploadedFile("price.txt", b"45.00"))

    assert page.status == 409

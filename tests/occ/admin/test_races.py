"""Somebody writes after a form was validated and before its UPDATE: the same page, and nothing half done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models.signals import pre_save

from tests.kit.sessions import Session
from tests.library.models import Book, Tag
from tests.occ.admin.editors import Editor


@contextmanager
def just_before_saving(act: Callable[[Book], Any], times: int = 1) -> Iterator[list[int]]:
    """Do something between validation and UPDATE, at the first saves of a book."""
    done: list[int] = []

    def receive(instance: Book, **kwargs: Any) -> None:
        if len(done) < times:
            done.append(instance.pk)
            act(instance)

    pre_save.connect(receive, sender=Book)
    try:
        yield done
    finally:
        pre_save.disconnect(receive, sender=Book)


@pytest.fixture
def rival(second_session: Session) -> Session:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite lets nobody write while the admin's transaction is open.")
    return second_session


def test_a_write_in_between_ends_on_the_same_page(ann: Editor, book: Book, rival: Session) -> None:
    fiction = Tag.objects.create(name="fiction")
    ann.open(book)
    with just_before_saving(lambda book: rival.run(lambda: Book.objects.filter(pk=book.pk).update(price="99.00"))):
        page = ann.submit(price="45.00", title="Book One", tags=[str(fiction.pk)])

    assert page.status == 409
    assert "Price choose 50.00 Keep 99.00: Price Use 45.00: Price" in page.text
    assert "changed successfully" not in page.text
    assert page.data["tags"] == [str(fiction.pk)]
    book.refresh_from_db()
    assert (book.title, str(book.price), list(book.tags.all()), book.version) == ("Book 1", "99.00", [], 2)
    assert LogEntry.objects.count() == 0
    page = ann.submit(occ_choice_price="mine", follow=True)
    assert "changed successfully" in page.text
    book.refresh_from_db()
    assert (book.title, str(book.price), list(book.tags.all())) == ("Book One", "45.00", [fiction])


def test_a_deletion_in_between_shows_what_was_typed(ann: Editor, book: Book, rival: Session) -> None:
    ann.open(book)
    with just_before_saving(lambda book: rival.run(lambda: Book.objects.filter(pk=book.pk).delete())):
        page = ann.submit(title="Book One")

    assert page.status == 409
    assert "this book was deleted after you opened it" in page.text
    assert page.data["title"] == "Book One"


def test_writers_that_are_always_faster_end_on_the_page_too(ann: Editor, book: Book) -> None:
    # Rolled back with the refused save each time, so that every attempt looks fresh and is refused all the same.
    fiction = Tag.objects.create(name="fiction")
    ann.open(book)
    with just_before_saving(lambda book: Book.objects.filter(pk=book.pk).update(price="99.00"), times=9) as attempts:
        page = ann.submit(title="Book One", tags=[str(fiction.pk)])

    assert page.status == 409
    assert len(attempts) == 2
    assert "Not saved: somebody else wrote at the same moment. Please save again." in page.text
    assert "changed successfully" not in page.text
    assert page.data["title"] == "Book One"
    book.refresh_from_db()
    assert (book.title, list(book.tags.all()), book.version) == ("Book 1", [], 1)
    assert LogEntry.objects.count() == 0


def test_a_passing_lock_trouble_is_tried_again(ann: Editor, book: Book) -> None:
    ann.open(book)
    with just_before_saving(lambda book: Book.objects.filter(pk=book.pk).update(price="99.00")):
        page = ann.submit(title="Book One", follow=True)

    assert "was changed successfully" in page.text
    assert Book.objects.get().title == "Book One"

"""Deleting: what goes is what the confirmation page showed."""

from django.contrib.admin.models import LogEntry

from tests.kit.sessions import Session
from tests.library.models import Book, Chapter
from tests.occ.admin.editors import Editor


def test_a_fresh_confirmation_deletes(ann: Editor, book: Book) -> None:
    ann.open(book, "delete")

    page = ann.submit("", follow=True)

    assert "The book “Book 1” was deleted successfully." in page.text
    assert not Book.objects.exists()


def test_a_stale_confirmation_comes_back_with_what_changed(ann: Editor, bob: Editor, book: Book) -> None:
    Chapter.objects.create(book=book, title="Ch 1")
    bob.open(book, "delete")
    ann.open(book)
    ann.submit(price="99.00")

    page = bob.submit("")

    assert page.status == 409
    assert "Not deleted: this book was changed after you opened the page." in page.text
    assert "Price: 50.00 → 99.00" in page.text
    assert "ann (" in page.text
    assert "deleted successfully" not in page.text
    assert Book.objects.count() == Chapter.objects.count() == 1
    assert LogEntry.objects.filter(user=bob.user).count() == 0
    page = bob.submit("", follow=True)
    assert "was deleted successfully" in page.text
    assert not Book.objects.exists()


def test_a_confirmation_without_its_token_deletes_nothing(ann: Editor, book: Book) -> None:
    ann.open(book, "delete")

    page = ann.submit("", occ_token=None)

    assert page.status == 409
    assert "did not say which version" in page.text
    assert Book.objects.exists()


def test_a_row_that_is_gone_already_is_reported_as_django_does(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book, "delete")
    book.delete()

    page = bob.submit("", follow=True)

    assert "doesn’t exist. Perhaps it was deleted?" in page.text


def test_the_confirmation_works_for_who_may_not_change(book: Book) -> None:
    eve = Editor("eve", permissions=("delete_book", "view_book", "delete_chapter", "view_chapter"))
    eve.open(book, "delete")

    page = eve.submit("", follow=True)

    assert "was deleted successfully" in page.text


def test_a_rival_of_another_session_is_seen_by_the_delete_itself(
    ann: Editor, book: Book, second_session: Session
) -> None:
    ann.open(book, "delete")
    second_session.run(lambda: Book.objects.filter(pk=book.pk).update(price="99.00"))

    page = ann.submit("")

    assert page.status == 409
    assert Book.objects.exists()

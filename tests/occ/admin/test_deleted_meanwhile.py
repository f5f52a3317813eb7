"""The object of a form was deleted while somebody typed."""

from tests.library.models import Book
from tests.occ.admin.editors import Editor


def test_what_was_typed_is_shown_and_can_be_saved_as_new(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book, "delete")
    ann.submit("")

    page = bob.submit(title="Book One", notes="A long text.")

    assert page.status == 409
    assert "Not saved: this book was deleted after you opened it." in page.text
    assert "ann" in page.text
    assert (page.data["title"], page.data["notes"]) == ("Book One", "A long text.")
    assert page.buttons == {"_saveasnew": "Save mine as a new book"}
    assert not Book.objects.exists()

    page = bob.submit("_saveasnew", follow=True)

    assert "was added successfully" in page.text
    assert list(Book.objects.values_list("title", "notes")) == [("Book One", "A long text.")]


def test_pressing_enter_there_asks_again(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    book.delete()
    bob.submit(title="Book One")

    page = bob.submit("_save", title="Book Two")

    assert page.status == 409
    assert page.data["title"] == "Book Two"
    assert not Book.objects.exists()


def test_who_may_not_add_can_at_least_copy_what_was_typed(book: Book) -> None:
    eve = Editor("eve", permissions=("change_book", "view_book"))
    eve.open(book)
    book.delete()

    page = eve.submit(title="Book One")

    assert page.status == 409
    assert "Not saved: this book was deleted after you opened it." in page.text
    assert "Title Book One" in page.text
    assert page.buttons == {}


def test_an_object_that_never_was_is_reported_as_django_does(ann: Editor, book: Book) -> None:
    ann.open(book)
    ann.url = ann.url.replace(str(book.pk), "999")

    page = ann.submit(title="Book One", follow=True)

    assert "doesn’t exist. Perhaps it was deleted?" in page.text


def test_what_was_typed_into_a_masked_field_is_not_shown_to_copy(book: Book, ann: Editor) -> None:
    eve = Editor("eve", permissions=("change_book", "view_book"), site="whole")
    eve.open(book)
    Book.objects.all().delete()

    page = eve.submit(title="Book One", notes="secret")

    assert page.status == 409
    assert "Book One" in page.text
    assert "Notes ••••••" in page.text
    assert "secret" not in page.html

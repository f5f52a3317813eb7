"""Lists, inline rows, deletions and actions in Chromium."""

from collections.abc import Callable

from tests.browser.conftest import Person
from tests.library.models import Book, Chapter


def test_an_editable_list_keeps_what_was_typed(person: Callable[..., Person], book: Book) -> None:
    bob = person("bob")
    page = bob.open_list(Book, admin="tables")
    Book.objects.filter(pk=book.pk).update(stock=7)
    page.fill("[name=form-0-stock]", "5")

    bob.save()

    assert "Nothing was saved: a row was changed after you opened this page: Book 1." in page.inner_text("#content")
    assert page.locator("[name=form-0-stock]").input_value() == "5"
    page.get_by_label("Keep 7").check()
    bob.save()
    assert page.locator("[name=form-0-stock]").input_value() == "7"
    book.refresh_from_db()
    assert (book.stock, book.version) == (7, 2)


def test_inline_rows_are_decided_at_the_row(person: Callable[..., Person], book: Book) -> None:
    bob = person("bob")
    page = bob.open(book, admin="tables")
    Chapter.objects.filter(title="Ch 1").delete()
    Chapter.objects.filter(title="Ch 2").update(pages=25)
    page.fill("[name=chapters-0-pages]", "11")
    page.fill("[name=chapters-1-pages]", "22")

    bob.save()

    page.get_by_label("Add it again as below").check()
    page.get_by_label("Use 22").check()
    bob.save()
    assert page.locator(".messagelist .success").count() == 1
    assert sorted(Chapter.objects.values_list("title", "pages")) == [("Ch 1", 11), ("Ch 2", 22)]


def test_a_stale_deletion_comes_back(person: Callable[..., Person], book: Book) -> None:
    bob = person("bob")
    page = bob.open(book, "delete")
    Book.objects.filter(pk=book.pk).update(price="99.00")

    bob.save("Yes, I’m sure")

    assert "Not deleted: this book was changed after you opened the page." in page.inner_text(".messagelist")
    bob.save("Yes, I’m sure")
    assert not Book.objects.exists()


def test_a_stale_action_keeps_the_selection(person: Callable[..., Person], book: Book) -> None:
    bob = person("bob")
    page = bob.open_list(Book, admin="tables")
    Book.objects.filter(pk=book.pk).update(price="99.00")
    page.check("[name=_selected_action]")
    page.select_option("[name=action]", "double_the_price")

    with page.expect_navigation():
        page.locator("button[name=index]").click()

    assert "Nothing was done" in page.inner_text(".messagelist")
    assert page.is_checked("[name=_selected_action]")
    with page.expect_navigation():
        page.locator("button[name=index]").click()
    book.refresh_from_db()
    assert str(book.price) == "198.00"

"""Two people edit one book in Chromium."""

from collections.abc import Callable

import pytest

from tests.browser.conftest import Person
from tests.library.models import Book


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"])
def test_the_second_editor_loses_nothing_and_decides(
    person: Callable[..., Person], book: Book, javascript: bool
) -> None:
    ann, bob = person("ann", java_script_enabled=javascript), person("bob", java_script_enabled=javascript)
    bob.open(book)
    ann.open(book)
    ann.page.fill("[name=price]", "99.00")
    ann.page.fill("[name=stock]", "11")
    ann.page.fill("[name=notes]", "Reprint planned for autumn.")
    ann.save()
    assert ann.page.locator(".messagelist .success").count() == 1

    bob.page.fill("[name=title]", "Book One")
    bob.page.fill("[name=price]", "45.00")
    bob.page.fill("[name=notes]", "Reprint planned for spring. Ask the printer for a quote.")
    bob.save()

    page = bob.page
    assert page.locator("h2.occ-title").inner_text() == "Not saved yet: this book was changed after you opened it."
    assert page.locator(".messagelist .success").count() == 0
    assert page.locator(".errornote").is_hidden()
    assert page.locator("[name=title]").input_value() == "Book One"
    assert page.locator("[name=price]").input_value() == "45.00"
    assert page.locator("[name=stock]").input_value() == "11"
    assert page.locator("tr.occ-choose th").all_inner_texts() == ["Price\nchoose", "Notes\nchoose"]
    bob.save("Save combined")
    assert page.locator("h2.occ-title").inner_text() == "Not saved yet: some fields still need your choice."
    page.get_by_label("Keep 99.00").check()
    page.get_by_label("Use mine").check()
    bob.save("Save combined")
    assert page.locator(".messagelist .success").count() == 1
    book.refresh_from_db()
    assert (book.title, str(book.price), book.stock) == ("Book One", "99.00", 11)
    assert book.notes == "Reprint planned for spring. Ask the printer for a quote."


def test_three_editors_lose_nothing_either(person: Callable[..., Person], book: Book) -> None:
    people = [person(name) for name in ("ann", "bob", "eve")]
    for somebody in people:
        somebody.open(book)
    for somebody, (name, value) in zip(
        people, [("title", "Book One"), ("stock", "11"), ("notes", "By eve.")], strict=True
    ):
        somebody.page.fill(f"[name={name}]", value)
    ann, bob, eve = people

    ann.save()
    for somebody in (bob, eve):
        somebody.save()
        assert somebody.page.locator("h2.occ-title").is_visible()
        somebody.save("Save combined")

    assert all(somebody.page.locator(".messagelist .success").count() == 1 for somebody in people)
    book.refresh_from_db()
    assert (book.title, book.stock, book.notes, book.version) == ("Book One", 11, "By eve.", 4)


def test_the_back_button_starts_from_the_row_as_it_is(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.open(book)
    ann.page.fill("[name=price]", "99.00")
    ann.save()
    Book.objects.filter(pk=book.pk).update(stock=11)
    ann.page.go_back()
    assert ann.page.locator("[name=stock]").input_value() == "11"

    ann.page.fill("[name=price]", "45.00")
    ann.save()

    book.refresh_from_db()
    assert (str(book.price), book.stock, book.version) == ("45.00", 11, 4)

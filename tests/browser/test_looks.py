"""The conflict page for everybody: by keyboard, in the dark, on a telephone, under axe-core's eyes."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import Person
from tests.library.models import Book, Chapter


def conflict_of(person: Callable[..., Person], book: Book, admin: str = "editors", **options: Any) -> Person:
    """Let bob meet a conflict, in a browser with these options."""
    bob = person("bob", **options)
    bob.open(book, admin=admin)
    Book.objects.filter(pk=book.pk).update(price="99.00", stock=11)
    Chapter.objects.filter(title="Ch 2").update(pages=25)
    bob.page.fill("[name=price]", "45.00")
    if admin == "tables":
        Chapter.objects.filter(title="Ch 1").delete()
        bob.page.fill("[name=chapters-0-pages]", "11")
        bob.page.fill("[name=chapters-1-pages]", "22")
    bob.save()
    assert bob.page.locator("h2.occ-title").is_visible()
    return bob


def findings(page: Page, context: Any = None) -> list[tuple[str, list[str]]]:
    """What axe-core objects to."""
    violations = Axe().run(page, context=context).response["violations"]
    return [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in violations]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_axe_finds_nothing(person: Callable[..., Person], book: Book, scheme: str, width: int) -> None:
    bob = conflict_of(person, book, "tables", color_scheme=scheme, viewport={"width": width, "height": 800})

    assert findings(bob.page, {"include": [[".occ-conflict"]]}) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_list_nor_where_the_object_is_gone(
    person: Callable[..., Person], book: Book, scheme: str
) -> None:
    bob = person("bob", color_scheme=scheme, viewport={"width": 360, "height": 800})
    page = bob.open_list(Book, admin="tables")
    Book.objects.update(stock=7)
    page.fill("[name=form-0-stock]", "5")
    bob.save()
    assert findings(page, {"include": [[".occ-conflict"]]}) == []
    bob.open(book)
    page.fill("[name=title]", "Book One")
    Book.objects.all().delete()
    bob.save()

    assert findings(page, {"include": [[".occ-conflict"]]}) == []


@pytest.mark.parametrize("admin", ["editors", "tables"])
def test_nothing_is_wider_than_a_telephone(person: Callable[..., Person], book: Book, admin: str) -> None:
    bob = conflict_of(person, book, admin, viewport={"width": 360, "height": 800})

    widest = bob.page.evaluate("""() => Math.max(...[...document.querySelectorAll('.occ-conflict, .occ-conflict *')]
        .filter(element => !element.closest('.visually-hidden, thead'))
        .map(element => element.getBoundingClientRect().right))""")
    assert widest <= 360


def test_right_to_left_pages_are_mirrored(person: Callable[..., Person], book: Book) -> None:
    bob = conflict_of(person, book)
    bob.page.evaluate("document.documentElement.dir = 'rtl'")

    banner = bob.page.locator(".occ-banner").evaluate(
        "element => [getComputedStyle(element).borderLeftWidth, getComputedStyle(element).borderRightWidth]"
    )
    assert banner == ["1px", "6px"]


def test_it_is_decided_by_keyboard_alone(person: Callable[..., Person], book: Book) -> None:
    bob = conflict_of(person, book)
    keyboard = bob.page.keyboard

    assert bob.page.evaluate("document.activeElement.id") == "occ-conflict"
    keyboard.press("Tab")
    assert bob.page.evaluate("[document.activeElement.name, document.activeElement.value]") == [
        "occ_choice_price",
        "theirs",
    ]
    keyboard.press("ArrowDown")
    with bob.page.expect_navigation():
        keyboard.press("Enter")

    assert bob.page.locator(".messagelist .success").count() == 1
    book.refresh_from_db()
    assert (str(book.price), book.stock) == ("45.00", 11)

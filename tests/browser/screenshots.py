"""Makes the pictures of docs/how-to/admin.md from the real pages: ``python -m pytest tests/browser/screenshots.py``."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Person
from tests.library.models import Book, Chapter

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "img"


@pytest.mark.parametrize(("picture", "width"), [("admin-conflict.png", 1150), ("admin-conflict-mobile.png", 390)])
def test_the_conflict_page(person: Callable[..., Person], book: Book, picture: str, width: int) -> None:
    ann, bob = person("ann"), person("bob", viewport={"width": width, "height": 900}, color_scheme="light")
    bob.open(book)
    ann.open(book)
    for name, value in {"price": "99.00", "stock": "11", "notes": "Reprint planned for autumn."}.items():
        ann.page.fill(f"[name={name}]", value)
    ann.save()
    for name, value in {
        "title": "Book One",
        "price": "45.00",
        "notes": "Reprint planned for spring. Ask the printer for a quote.",
    }.items():
        bob.page.fill(f"[name={name}]", value)

    bob.save()

    bob.page.screenshot(path=PICTURES / picture, clip=_upto(bob, ".field-notes"), full_page=True)


def test_a_row(person: Callable[..., Person], book: Book) -> None:
    bob = person("bob", viewport={"width": 1150, "height": 900}, color_scheme="light")
    bob.open(book, admin="tables")
    Chapter.objects.filter(title="Ch 1").delete()
    Chapter.objects.filter(title="Ch 2").update(pages=25)
    bob.page.fill("[name=chapters-0-pages]", "11")
    bob.page.fill("[name=chapters-1-pages]", "22")

    bob.save()

    bob.page.locator("#chapters-group").screenshot(path=PICTURES / "admin-rows.png")


def _upto(person: Person, selector: str) -> dict[str, float]:
    box = person.page.locator(selector).bounding_box()
    size = person.page.viewport_size
    assert box is not None
    assert size is not None
    return {"x": 0, "y": 0, "width": size["width"], "height": box["y"] + box["height"]}

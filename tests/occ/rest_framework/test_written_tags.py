"""The tag of a written row is that of what the request wrote, though a rival writes before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.models.signals import post_save

from occ.signals import rows_written
from tests.library.models import Author, Book, Gate, Shelf

from .conftest import Answer, in_process

pytestmark = pytest.mark.django_db

API = pytest.mark.urls("tests.occ.rest_framework.api")
MANY_ROWS = pytest.mark.urls("tests.occ.rest_framework.test_many_rows")

RIVALS = "the rival's"


@pytest.fixture
def book() -> Book:
    return Book.objects.create(title="Emma", stock=1, author=Author.objects.create(name="Jane"))


@pytest.fixture
def rival(book: Book) -> Iterator[None]:
    """Let a rival change each row of ``Book``, ``Gate`` and ``Shelf`` as soon as a request has saved it."""
    columns = {Book: "notes", Gate: "name", Shelf: "label"}

    def write(sender: Any, instance: Any, **kwargs: Any) -> None:
        if sender in columns:
            sender.objects.filter(pk=instance.pk).update(**{columns[sender]: RIVALS})

    post_save.connect(write)
    yield
    post_save.disconnect(write)


def send(method: str, path: str, body: dict[str, Any], **headers: str) -> Answer:
    return in_process(method, path, body=body, headers={name.replace("_", "-"): headers[name] for name in headers})


WRITES: dict[str, Callable[[int], Answer]] = {
    "PUT": lambda pk: send("PUT", f"/books/{pk}/", {"title": "Emma", "stock": 7}, If_Match='"1"'),
    "PATCH": lambda pk: send("PATCH", f"/books/{pk}/", {"stock": 7}, If_Match='"1"'),
    "the version in the body": lambda pk: send("PATCH", f"/books/{pk}/", {"stock": 7, "version": 1}),
    "a star": lambda pk: send("PATCH", f"/books/{pk}/", {"stock": 7}, If_Match="*"),
    "left to the server": lambda pk: send("PATCH", f"/retrying/{pk}/", {"stock": 7}),
    "without a version": lambda pk: send("PUT", f"/lenient/{pk}/", {"title": "Emma", "stock": 7}),
    "a nested answer": lambda pk: send("PATCH", f"/nested/{pk}/", {"title": "Persuasion"}, If_Match='"1"'),
    "an action": lambda pk: send("POST", f"/books/{pk}/sell/", {}, If_Match='"1"'),
}


@API
@pytest.mark.usefixtures("rival")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_is_answered_with_its_own_version_and_not_with_a_rivals(
    book: Book, write: Callable[[int], Answer]
) -> None:
    written = write(book.pk)
    erasing = send("PATCH", f"/books/{book.pk}/", {"notes": ""}, If_Match=written.tag)

    assert (written.status, written.tag.partition("-")[0], written.json["version"]) == (200, '"2', 2)
    assert written.json.get("notes", "") == ""
    assert (erasing.status, erasing.json["current_version"]) == (409, 3)
    assert Book.objects.values_list("version", "notes").get() == (3, RIVALS)


@API
@pytest.mark.usefixtures("rival")
def test_a_new_row_is_answered_with_its_own_version_too() -> None:
    created = send("POST", "/books/", {"title": "Sanditon"})
    erasing = send("DELETE", f"/books/{created.json['id']}/", {}, If_Match=created.tag)

    assert (created.status, created.tag.partition("-")[0], created.json["notes"]) == (201, '"1', "")
    assert erasing.status == 409


@MANY_ROWS
@pytest.mark.usefixtures("rival")
def test_a_row_created_by_put_is_answered_with_its_own_version_too() -> None:
    created = send("PUT", "/shelves/a1/", {"label": "mine"}, If_None_Match="*")
    erasing = send("DELETE", "/shelves/a1/", {}, If_Match=created.tag)

    assert (created.status, created.json["label"]) == (201, "mine")
    assert (erasing.status, Shelf.objects.get().label) == (409, RIVALS)


@MANY_ROWS
@pytest.mark.usefixtures("rival")
def test_a_parent_that_has_moved_before_it_was_touched_refuses_the_write_of_its_children(book: Book) -> None:
    chapter = book.chapters.create(title="one")
    body = {"title": "Emma", "stock": 7, "chapters": [{"id": chapter.pk, "title": "one", "pages": 5}]}

    answer = send("PUT", f"/touched/{book.pk}/", body, If_Match='"1"')

    assert (answer.status, "ETag" in answer.headers) == (409, False)


@API
def test_an_apply_is_answered_with_its_own_version_too() -> None:
    gate = Gate.objects.create()
    path = f"/gates/{gate.pk}/?fieldManager=hpa"

    def write(operation: str, **kwargs: Any) -> None:
        if operation == "apply":
            Gate.objects.filter(pk=gate.pk).update(name=RIVALS)

    rows_written.connect(write, sender=Gate)
    try:
        applied = send("PATCH", path, {"replicas": 5}, Content_Type="application/apply-patch+json")
    finally:
        rows_written.disconnect(write, sender=Gate)
    erasing = send("PATCH", f"/gates/{gate.pk}/", {"name": ""}, If_Match=applied.tag)

    assert (applied.status, applied.tag.partition("-")[0], applied.json["name"]) == (200, '"2', "")
    assert (erasing.status, Gate.objects.get().name) == (409, RIVALS)

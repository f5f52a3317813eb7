"""Many clients at once, each in a thread of its own, against a real server and database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.library.models import Book

from .conftest import Answer, Call, over_socket

pytestmark = [pytest.mark.urls("tests.occ.rest_framework.api"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def call(live_server: LiveServer) -> Call:
    return over_socket(live_server.url)


def all_at_once(count: int, send: Callable[[int], Answer]) -> list[Answer]:
    """Call ``send`` with 0, 1, ... in threads that start together."""
    barrier = Barrier(count)

    def start(number: int) -> Answer:
        barrier.wait()
        return send(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("carrier", ["header", "body"])
def test_of_many_writers_with_one_version_exactly_one_writes(call: Call, method: str, carrier: str) -> None:
    book = Book.objects.create(title="Emma")
    path = f"/books/{book.pk}/"
    tag = call("GET", path).tag

    def write(number: int) -> Answer:
        body: dict[str, Any] = {"title": "Emma", "stock": number + 1}
        if carrier == "header":
            return call(method, path, body=body, headers={"If-Match": tag})
        return call(method, path, body={**body, "version": 1})

    answers = all_at_once(32, write)

    winner = next(number for number, answer in enumerate(answers, start=1) if answer.status == 200)
    assert statuses(answers) == {200: 1, 409: 31}
    assert Book.objects.values_list("version", "stock").get() == (2, winner)


def test_of_many_deletions_with_one_version_exactly_one_deletes(call: Call) -> None:
    book = Book.objects.create(title="Emma")
    path = f"/books/{book.pk}/"
    tag = call("GET", path).tag

    answers = all_at_once(8, lambda number: call("DELETE", path, headers={"If-Match": tag}))

    assert statuses(answers)[204] == 1
    assert set(statuses(answers)) <= {204, 404, 409}
    assert not Book.objects.exists()


def test_retried_patches_of_different_fields_are_all_kept(call: Call) -> None:
    book = Book.objects.create(title="Emma")
    path = f"/retrying/{book.pk}/"
    bodies: list[dict[str, Any]] = [{"stock": 7}, {"notes": "kept"}, {"price": "9.50"}, {"details": {"kept": True}}]

    answers = all_at_once(4, lambda number: call("PATCH", path, body=bodies[number]))

    book.refresh_from_db()
    assert statuses(answers) == {200: 4}
    assert sorted(answer.json["version"] for answer in answers) == [2, 3, 4, 5]
    assert (book.stock, book.notes, str(book.price), book.details) == (7, "kept", "9.50", {"kept": True})


@pytest.mark.parametrize(("path", "tag"), [("lenient", ""), ("books", "*")])
def test_writers_that_leave_the_version_open_all_write(call: Call, path: str, tag: str) -> None:
    book = Book.objects.create(title="Emma")

    answers = all_at_once(
        4, lambda n: call("PATCH", f"/{path}/{book.pk}/", body={"stock": n + 1}, headers={"If-Match": tag})
    )

    assert statuses(answers) == {200: 4}
    assert Book.objects.get().version == 5

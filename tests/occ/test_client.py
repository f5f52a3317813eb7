"""occ.client against a server that does as told, and against the real API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from pytest_django.live_server_helper import LiveServer

from occ.backoff import Backoff
from occ.client import AsyncClient, Client, NoTag, StillStale
from tests.library.models import Book

URL = "http://server/row/"
THREE = Backoff(base=1.0, factor=2.0, cap=60.0, jitter="none", attempts=3)


class Server:
    """One document with a version; ``rivals`` write are made just before that many of the client's."""

    def __init__(self, *, rivals: int = 0, refusal: httpx.Response | None = None) -> None:
        self.document: dict[str, Any] = {"stock": 0, "notes": ""}
        self.version = 1
        self.rivals = rivals
        self.refusal = refusal
        self.bodies: list[bytes] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=self.document, headers={"ETag": f'"{self.version}"'})
        self.bodies.append(request.content)
        if self.rivals:
            self.rivals -= 1
            self.version += 1
            self.document["stock"] += 100
        if request.headers["If-Match"] != f'"{self.version}"':
            return self.refusal or httpx.Response(409, json={"detail": "...", "code": "stale_version"})
        self.version += 1
        self.document |= httpx.Response(200, content=request.content).json()
        return httpx.Response(200, json=self.document)


def client(server: Callable[[httpx.Request], httpx.Response], slept: list[float] | None = None) -> Client:
    waits = [] if slept is None else slept
    return Client(httpx.Client(transport=httpx.MockTransport(server)), backoff=THREE, sleep=waits.append)


def sell(document: dict[str, Any]) -> None:
    document["stock"] += 1


def test_a_change_is_made_again_on_a_fresh_copy_until_it_is_accepted() -> None:
    server, slept = Server(rivals=2), []

    answer = client(server, slept).mutate(URL, sell)

    assert answer == {"stock": 201, "notes": ""}
    assert slept == [1.0, 2.0]


def test_patch_sends_what_changed() -> None:
    server = Server()

    client(server).mutate(URL, sell, method="PATCH")

    assert server.bodies == [b'{"stock":1}']


def test_what_changes_nothing_is_not_sent() -> None:
    server = Server()

    answer = client(server).mutate(URL, lambda document: None)

    assert (answer, server.bodies) == ({"stock": 0, "notes": ""}, [])


def test_after_the_last_attempt_the_refusal_is_raised() -> None:
    slept: list[float] = []

    with pytest.raises(StillStale) as caught:
        client(Server(rivals=9), slept).mutate(URL, sell)

    assert (caught.value.url, caught.value.attempts, caught.value.response.status_code) == (URL, 3, 409)
    assert slept == [1.0, 2.0]


def test_rfc_9110s_412_is_a_conflict_too() -> None:
    server = Server(rivals=1, refusal=httpx.Response(412))

    assert client(server).mutate(URL, sell)["stock"] == 101


def test_a_409_of_another_kind_is_raised_at_once() -> None:
    server = Server(rivals=1, refusal=httpx.Response(409, json={"detail": "...", "code": "out_of_stock"}))

    with pytest.raises(httpx.HTTPStatusError):
        client(server).mutate(URL, sell)

    assert len(server.bodies) == 1


@pytest.mark.parametrize(("status", "stock"), [(302, 0), (303, 0), (307, 1), (308, 1)])
def test_a_write_that_became_a_get_on_the_way_is_no_success(status: int, stock: int) -> None:
    server = Server()

    def moved(request: httpx.Request) -> httpx.Response:
        moves = request.method == "PUT" and request.url == URL
        return httpx.Response(status, headers={"Location": f"{URL}now/"}) if moves else server(request)

    http = httpx.Client(transport=httpx.MockTransport(moved), follow_redirects=True)
    with nullcontext() if stock else pytest.raises(httpx.HTTPStatusError, match=str(status)):
        Client(http).mutate(URL, sell)

    assert server.document["stock"] == stock


def test_a_server_without_tags_is_named() -> None:
    with pytest.raises(NoTag, match=f"{URL} was answered without an ETag"):
        client(lambda request: httpx.Response(200, json={})).mutate(URL, sell)


def test_patch_cannot_remove_and_other_methods_cannot_change() -> None:
    with pytest.raises(ValueError, match="PATCH cannot remove 'notes'"):
        client(Server()).mutate(URL, lambda document: document.pop("notes"), method="PATCH")
    with pytest.raises(ValueError, match='method must be "PUT" or "PATCH"'):
        client(Server()).mutate(URL, sell, method="POST")  # type: ignore[arg-type]


def test_the_async_client_does_the_same() -> None:
    server, slept = Server(rivals=2), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> dict[str, Any]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as http:
            return await AsyncClient(http, backoff=THREE, sleep=sleep).mutate(URL, sell)

    assert asyncio.run(run()) == {"stock": 201, "notes": ""}
    assert slept == [1.0, 2.0]


@pytest.mark.urls("tests.occ.rest_framework.api")
@pytest.mark.django_db(transaction=True)
def test_clients_of_the_real_api_lose_nothing(live_server: LiveServer) -> None:
    book = Book.objects.create(title="Emma", stock=0)
    patient = Backoff(base=0.02, cap=0.5, attempts=60)

    def work(number: int) -> None:
        # A connection kept alive would keep a thread of the server, and its database connection, past the test.
        with httpx.Client(
            base_url=live_server.url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0)
        ) as http:
            for _ in range(3):
                Client(http, backoff=patient).mutate(f"/books/{book.pk}/", sell)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert Book.objects.values_list("version", "stock").get() == (13, 12)

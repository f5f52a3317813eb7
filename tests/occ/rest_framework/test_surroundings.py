"""What projects put around the views: transactions per request, compression, other middleware, random headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests
from django.db import connections
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.live_server_helper import LiveServer

from occ.etags import MalformedTagList, RowVersion, parse
from tests.kit.servers import NginxServer
from tests.library.models import Book

from .conftest import in_process, over_socket
from .test_races import all_at_once, statuses

pytestmark = pytest.mark.urls("tests.occ.rest_framework.api")


@pytest.fixture
def book() -> Book:
    return Book.objects.create(title="Emma", stock=1, details={"text": "long enough to be compressed " * 20})


class TestTransactionsPerRequest:
    @pytest.fixture(autouse=True)
    def atomic_requests(self) -> Iterator[None]:
        database = connections.databases["default"]
        before, database["ATOMIC_REQUESTS"] = database["ATOMIC_REQUESTS"], True
        yield
        database["ATOMIC_REQUESTS"] = before

    @pytest.mark.django_db(transaction=True)
    def test_a_refusal_leaves_nothing_written(self, book: Book) -> None:
        stale = in_process("PUT", f"/books/{book.pk}/", body={"title": "Emma"}, headers={"If-Match": '"9"'})
        written = in_process("PUT", f"/books/{book.pk}/", body={"title": "E"}, headers={"If-Match": '"1"'})

        assert (stale.status, written.status) == (409, 200)
        assert Book.objects.values_list("version", "title").get() == (2, "E")

    @pytest.mark.django_db(transaction=True)
    def test_of_many_writers_with_one_version_exactly_one_writes(self, book: Book, live_server: LiveServer) -> None:
        call = over_socket(live_server.url)

        answers = all_at_once(
            32,
            lambda n: call(
                "PUT", f"/books/{book.pk}/", body={"title": "Emma", "stock": n + 10}, headers={"If-Match": '"1"'}
            ),
        )

        assert statuses(answers) == {200: 1, 409: 31}
        assert Book.objects.get().version == 2

    @pytest.mark.django_db(transaction=True)
    def test_a_patch_left_to_the_server_is_made_or_refused_and_never_lost(
        self, book: Book, live_server: LiveServer
    ) -> None:
        call = over_socket(live_server.url)
        bodies: list[dict[str, Any]] = [{"stock": 7}, {"notes": "kept"}, {"price": "9.50"}]

        answers = all_at_once(3, lambda n: call("PATCH", f"/retrying/{book.pk}/", body=bodies[n]))

        row = Book.objects.get()
        state = {"stock": row.stock, "notes": row.notes, "price": str(row.price)}
        assert set(statuses(answers)) <= {200, 409}
        assert row.version == 1 + statuses(answers)[200]
        for answer, body in zip(answers, bodies, strict=True):
            assert (body.items() <= state.items()) == (answer.status == 200)


@pytest.fixture
def gzip_server(settings: Any) -> Iterator[LiveServer]:
    """A server of this test's own: one loads its middleware when it starts."""
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    server = LiveServer("localhost")
    yield server
    server.stop()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("client", [requests, httpx])
def test_under_gzip_the_tag_that_was_received_serves(book: Book, gzip_server: LiveServer, client: Any) -> None:
    address = f"{gzip_server.url}/books/{book.pk}/"

    read = client.get(address)
    again = client.get(address, headers={"If-None-Match": read.headers["ETag"]})
    written = client.put(address, json={**read.json(), "stock": 7}, headers={"If-Match": read.headers["ETag"]})
    stale = client.put(address, json={"title": "Emma"}, headers={"If-Match": read.headers["ETag"]})

    assert read.headers["Content-Encoding"] == "gzip"
    assert read.headers["ETag"].startswith("W/")
    assert (again.status_code, written.status_code, stale.status_code) == (304, 200, 409)
    assert written.headers["ETag"].removeprefix("W/").startswith('"2-')


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("client", [requests, httpx])
def test_behind_an_nginx_that_compresses_the_tag_that_was_received_serves(
    book: Book, live_server: LiveServer, nginx: Callable[[str], NginxServer], client: Any
) -> None:
    address = f"{nginx(live_server.url.replace('localhost', '127.0.0.1')).url}/books/{book.pk}/"

    read = client.get(address)
    tag = read.headers["ETag"]
    again = client.get(address, headers={"If-None-Match": tag})
    demanded = client.get(address, headers={"If-Match": tag})
    written = client.put(address, json={**read.json(), "stock": 7}, headers={"If-Match": tag})
    stale = client.put(address, json={"title": "Emma"}, headers={"If-Match": tag})
    without = client.put(address, json={"title": "Emma"})
    deleted = client.delete(address, headers={"If-Match": written.headers["ETag"]})

    assert (read.headers["Content-Encoding"], tag[:4]) == ("gzip", 'W/"1')
    answers = (read, again, demanded, written, stale, without, deleted)
    assert [answer.status_code for answer in answers] == [200, 304, 200, 200, 409, 428, 204]
    assert again.content == b""


@pytest.mark.django_db
def test_djangos_conditional_middleware_agrees(book: Book, settings: Any) -> None:
    settings.MIDDLEWARE = ["django.middleware.http.ConditionalGetMiddleware", *settings.MIDDLEWARE]

    read = in_process("GET", f"/books/{book.pk}/")
    again = in_process("GET", f"/books/{book.pk}/", headers={"If-None-Match": read.tag})
    written = in_process("PUT", f"/books/{book.pk}/", body={"title": "E"}, headers={"If-Match": read.tag})

    assert (read.status, again.status, written.status) == (200, 304, 200)
    assert read.tag.startswith('"1-')


header_bytes = st.text(st.sampled_from('"W/*, \t-0123\x00\x07\r\n\x7f\x80\xff;=q'), max_size=40) | st.text(
    st.characters(max_codepoint=0xFF), max_size=40
)


@pytest.mark.django_db
class TestRandomHeaders:
    @pytest.fixture
    def book(self) -> Book:
        return Book.objects.create(title="Emma", stock=1)

    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        method=st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "DELETE"]),
        if_match=header_bytes,
        none_match=header_bytes,
    )
    def test_no_header_breaks_the_server_or_writes_what_it_does_not_say(
        self, book: Book, method: str, if_match: str, none_match: str
    ) -> None:
        Book.objects.update_or_create(pk=book.pk, defaults={"title": "Emma", "stock": 1})
        row = RowVersion(version=Book.objects.get().version, label="library.book", pk=book.pk)
        given_headers = {"HTTP_IF_MATCH": if_match, "HTTP_IF_NONE_MATCH": none_match}

        answer = Client().generic(
            method, f"/books/{book.pk}/", '{"title": "Emma", "stock": 2}', "application/json", **given_headers
        )

        written = not Book.objects.filter(pk=book.pk, version=row.version).exists()
        assert answer.status_code < 500
        assert not written or allows_write(if_match, none_match, row)
        assert written == (answer.status_code in (200, 204) and method in ("PUT", "PATCH", "DELETE"))


def allows_write(if_match: str, none_match: str, row: RowVersion) -> bool:
    """Tell whether the headers, as the grammar reads them, let the row be written."""
    try:
        match, none = parse(if_match), parse(none_match)
    except MalformedTagList:
        return False
    named = match.any or any(row.is_named_by(tag, weak=True) for tag in match.tags)
    return named and not none.any and not any(row.is_named_by(tag, weak=True) for tag in none.tags)

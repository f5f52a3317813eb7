"""How these tests call the API: in the process, and over a socket with a client that knows nothing of Django."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from django.test import Client


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def tag(self) -> str:
        return self.headers["ETag"]


Call = Callable[..., Answer]


def in_process(method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """Call through Django's test client. ``body`` is sent as JSON, text as it is."""
    content = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    given = {"Accept": "application/json", **(headers or {})}
    content_type = given.pop("Content-Type", "application/json")
    answer = Client().generic(method, path, content, content_type, headers=given)
    return Answer(status=answer.status_code, headers=answer.headers, content=answer.content)


def over_socket(address: str) -> Call:
    """Return a function that calls the server at ``address``, each time over a new connection."""
    # A connection kept alive would keep a thread of the server, and its database connection, past the test.
    client = httpx.Client(base_url=address, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))

    def call(method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        content = body if isinstance(body, str) else None if body is None else json.dumps(body)
        given = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        raw = {name: value.strip(" \t").encode("latin-1") for name, value in given.items()}
        answer = client.request(method, path, content=content, headers=raw)
        return Answer(status=answer.status_code, headers=answer.headers, content=answer.content)

    return call


@pytest.fixture(
    params=[
        pytest.param(False, id="in process", marks=pytest.mark.django_db),
        pytest.param(True, id="over a socket", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def call(request: pytest.FixtureRequest) -> Call:
    """Call the API, one way and then the other."""
    return over_socket(request.getfixturevalue("live_server").url) if request.param else in_process

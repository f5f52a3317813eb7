"""The client's half: read, change a copy, write it with If-Match, and on a conflict do all of it again.

On httpx (``pip install django-occ[client]``). Needs neither Django's settings nor a server of this package: any that
answers reads with an ETag and stale writes with 409 or 412 will do.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from occ.backoff import Backoff

try:
    import httpx
except ImportError as error:
    raise ImportError("occ.client needs httpx: pip install 'django-occ[client]'", name="httpx") from error

Document = dict[str, Any]
Change = Callable[[Document], object]
Method = Literal["PUT", "PATCH"]

# Over a network a conflict lasts as long as a round trip, so the waits are longer than those inside a server.
DEFAULT_BACKOFF = Backoff(base=0.05, cap=2.0, attempts=8)

_STALE = (httpx.codes.CONFLICT, httpx.codes.PRECONDITION_FAILED)
_STALE_CODES = ("stale_version", "precondition_failed")


class StillStale(Exception):
    """Every attempt met a newer version. Nothing was written.

    Attributes:
        url: the address that was to be changed.
        attempts: how often it was tried.
        response: the last refusal.
    """

    def __init__(self, *, url: str, attempts: int, response: httpx.Response) -> None:
        self.url = url
        self.attempts = attempts
        self.response = response
        super().__init__(
            f"{url} changed under each of {attempts} attempts. Try again later, or give the client a backoff with more."
        )


class NoTag(Exception):
    """The server answered a read without an ETag, so a write could not say which version it changes.

    Attributes:
        url: the address that was read.
    """

    def __init__(self, *, url: str) -> None:
        self.url = url
        super().__init__(
            f"{url} was answered without an ETag. Add OptimisticLockMixin to the view, or see which proxy drops it."
        )


# What an exchange asks of whoever drives it: to send a request, or to wait for so many seconds.
_Step = httpx.Request | float


class Client:
    """Changes documents over HTTP without losing anybody's change.

    Args:
        http: an ``httpx.Client`` with base address, authentication and timeouts as you need them; it stays yours to
            close.
        backoff: the waits and the number of attempts; by default 8, from 50 ms, full jitter.
        sleep: waits for so many seconds.
    """

    def __init__(
        self, http: httpx.Client, *, backoff: Backoff = DEFAULT_BACKOFF, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._http = http
        self._backoff = backoff
        self._sleep = sleep

    def mutate(self, url: str, fn: Change, *, method: Method = "PUT") -> Document:
        """Change the JSON document at ``url``: ``fn`` gets a fresh copy and changes it in place.

        It runs once per attempt, each time on a new copy; effects outside the copy are its own affair. PUT sends the
        whole document, PATCH the top-level members that changed. Nothing changed: nothing is sent.

        Returns:
            The document as the server answered the write, or as it was read when nothing changed.

        Raises:
            StillStale: all attempts met a newer version.
            NoTag: the server sends no ETag.
            ValueError: PATCH, and ``fn`` removed a member, which PATCH cannot say.
            httpx.HTTPStatusError: any other refusal, at once.
        """
        steps = _mutation(self._http, url, fn, method, self._backoff)
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, httpx.Request):
                answer = self._http.send(step)
            else:
                self._sleep(step)


class AsyncClient:
    """The same for ``httpx.AsyncClient``; ``fn`` is an ordinary function."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._http = http
        self._backoff = backoff
        self._sleep = sleep

    async def mutate(self, url: str, fn: Change, *, method: Method = "PUT") -> Document:
        """Do as ``Client.mutate`` does, without blocking the event loop."""
        steps = _mutation(self._http, url, fn, method, self._backoff)
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, httpx.Request):
                answer = await self._http.send(step)
            else:
                await self._sleep(step)


def _mutation(
    http: httpx.Client | httpx.AsyncClient, url: str, fn: Change, method: Method, backoff: Backoff
) -> Generator[_Step, Any, Document]:
    """Yield the requests to send and the waits to make; blocking or not is the caller's choice.

    A request is answered by ``send(response)``; what is sent after a wait is not looked at.
    """
    if method not in ("PUT", "PATCH"):
        raise ValueError(f'method must be "PUT" or "PATCH", not {method!r}.')
    delays = backoff.delays()
    attempts = 0
    while True:
        attempts += 1
        read: httpx.Response = yield http.build_request("GET", url, headers={"Accept": "application/json"})
        read.raise_for_status()
        if "ETag" not in read.headers:
            raise NoTag(url=url)
        before: Document = read.json()
        after = copy.deepcopy(before)
        fn(after)
        if after == before:
            return before
        body = after if method == "PUT" else _changed_members(before, after)
        headers = {"If-Match": read.headers["ETag"], "Accept": "application/json"}
        written: httpx.Response = yield http.build_request(method, url, json=body, headers=headers)
        if not _is_stale(written):
            if written.request.method != method:  # httpx followed a 302 or 303 by GET, whose success means nothing
                written = written.history[0]
            written.raise_for_status()
            return written.json() if written.content else after
        delay = next(delays, None)
        if delay is None:
            raise StillStale(url=url, attempts=attempts, response=written)
        yield delay


def _changed_members(before: Document, after: Document) -> Document:
    removed = [name for name in before if name not in after]
    if removed:
        raise ValueError(f"PATCH cannot remove {', '.join(map(repr, removed))}. Set it to None, or use PUT.")
    return {name: value for name, value in after.items() if name not in before or before[name] != value}


def _is_stale(response: httpx.Response) -> bool:
    """Tell whether a newer version is what the server refused for; a 409 of another kind would only come again."""
    if response.status_code not in _STALE:
        return False
    try:
        body = response.json()
    except ValueError:
        return True
    code = body.get("code") if isinstance(body, dict) else None
    return code is None or code in _STALE_CODES

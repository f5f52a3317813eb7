"""Waiting for what another process does: by looking often, never by sleeping for long enough."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, timeout: float = 20.0, interval: float = 0.02, what: str = "") -> T:
    """Call ``condition`` until it returns something true, and return that.

    Raises AssertionError with ``what`` (or the condition's name) and the last value after ``timeout`` seconds. For
    states of other processes only; inside one process an event or the fake clock serves.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            name = what or getattr(condition, "__name__", repr(condition))
            raise AssertionError(f"not within {timeout:g} s: {name} (last value: {value!r})")
        time.sleep(interval)

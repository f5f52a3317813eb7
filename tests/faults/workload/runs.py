"""A record of the runs of all processes: who ran which key, from when to when."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.backends.signals import connection_created
from django.dispatch import receiver

RECORD = "OCC_TEST_RUNS"

# A file that grows by a byte with each statement that a process sends to its database.
STATEMENTS = "OCC_TEST_STATEMENTS"


def _count(execute: Callable[..., Any], *arguments: Any) -> Any:
    with open(os.environ[STATEMENTS], "ab", buffering=0) as file:
        file.write(b".")
    return execute(*arguments)


@receiver(connection_created, dispatch_uid=__name__)
def _count_statements(connection: Any, **kwargs: Any) -> None:
    if STATEMENTS in os.environ and _count not in connection.execute_wrappers:
        connection.execute_wrappers.append(_count)


@contextmanager
def recorded(name: str, key: object) -> Iterator[None]:
    """Note the beginning and the end of a run; a killed one has no end."""
    _append("begin", name, key)
    yield
    _append("end", name, key)


def _append(what: str, name: str, key: object) -> None:
    path = os.environ.get(RECORD)
    if path:
        # One short write at the end of a file is atomic, also between processes.
        with open(path, "ab", buffering=0) as record:
            record.write(f"{time.monotonic_ns()} {what} {os.getpid()} {name} {key}\n".encode())


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The record as the test reads it."""

    path: Path

    def lines(self) -> list[tuple[int, str, int, str, str]]:
        found = (line.split() for line in self.path.read_text().splitlines())
        return sorted((int(at), what, int(pid), name, key) for at, what, pid, name, key in found)

    def count(self, name: str) -> int:
        return sum(1 for _, what, _, of, _ in self.lines() if what == "begin" and of == name)

    def overlaps(self, *, dead: set[int] = frozenset()) -> list[str]:  # type: ignore[assignment]
        """Return the keys that two live processes ran at once. ``dead``: processes that were killed meanwhile."""
        running: dict[tuple[str, str], set[int]] = defaultdict(set)
        found = []
        for _, what, pid, name, key in self.lines():
            if what == "end":
                running[name, key].discard(pid)
                continue
            if running[name, key] - dead:
                found.append(f"{name} {key}: {pid} began while {running[name, key]} ran")
            running[name, key].add(pid)
        return found

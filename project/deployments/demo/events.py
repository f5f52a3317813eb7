"""What the processes of a demo tell each other: one line of JSON per event, in files that only grow.

A file per process, appended to with one write per line: whoever is killed leaves complete lines behind, and the reader
needs no server. Written by the writers and the Celery worker, read by the demo's own process.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

GUARDED = "guarded"  # the fleet whose writes are conditional on a version


class What(StrEnum):
    """What happened."""

    READY = "ready"  # the process can begin
    ACCEPTED = "accepted"  # a change was written
    CONFLICT = "conflict"  # a write was refused, because somebody else had written
    RECONCILED = "reconciled"  # a reconciler ran for a key, whatever came of it
    GAVE_UP = "gave_up"  # refused so often that the writer let it be
    FAILED = "failed"  # anything that should not happen
    DONE = "done"  # the act is over for this process


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened in one process.

    Attributes:
        what: see ``What``.
        kind: the kind of writer, as the report names it.
        writer: the one writer of that kind.
        fleet: ``"guarded"`` or ``"unguarded"``.
        pk: the deployment.
        counter: the counter of the row that an accepted change raised by one.
        version: the version that an accepted change became, where the writer is told.
        seconds: from the first read to the acceptance, refused attempts and waits included.
        retries: attempts after the first.
        requeued: whether the work item was put back to run again by itself.
        detail: for people.
    """

    what: What
    kind: str = ""
    writer: str = ""
    fleet: str = ""
    pk: int = 0
    counter: str = ""
    version: int | None = None
    seconds: float = 0.0
    retries: int = 0
    requeued: bool = False
    detail: str = ""


_DEFAULTS = {field.name: field.default for field in fields(Event)}


class EventLog:
    """The file that one process appends its events to; threads may share it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(self, event: Event) -> None:
        """Write one event, readable at once by others."""
        content = {name: value for name, value in asdict(event).items() if value != _DEFAULTS[name]}
        os.write(self._file, json.dumps(content).encode() + b"\n")


class EventReader:
    """Reads what was appended to the files of a folder since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[Event]:
        """Yield the events that are complete and were not yet given; file by file, each in its order."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(complete)
            for line in complete.splitlines():
                yield _event(json.loads(line))


def _event(content: dict[str, Any]) -> Event:
    return Event(**{**content, "what": What(content["what"])})

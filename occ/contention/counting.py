"""Counting in memory: a dictionary per process, drained by the flusher. Nothing here touches the database, except
that a few conflicts are looked into (``collisions``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import models

from occ.attribution import UNKNOWN_MANAGER, ambient_manager, running_reconciler
from occ.contention import collisions
from occ.exceptions import BulkConflict, Conflict

# Writers told apart between two flushes; those beyond are counted together.
MOST_WRITERS = 500
OTHERS = "(others)"
PEOPLE = "user"  # the mixins name each user; a counter per user would help nobody

WRITES, CONFLICTS = 0, 1

# (model label, reconciler, field manager)
Writer = tuple[str, str, str]
Counts = dict[Writer, list[int]]
_Key = tuple[type[models.Model], str, str | None]

_reconciler = running_reconciler.get
_manager = ambient_manager.get


class Counters:
    """The counts of this process since they were last drained."""

    def __init__(self) -> None:
        self.on_first: Callable[[], None] | None = None  # called once, at the first count
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything; also what a forked child does, where another thread may have held the lock."""
        self._lock = threading.RLock()  # a signal handler may interrupt a count
        self._tallies: dict[_Key, list[int]] = {}
        self._collisions: dict[collisions.Collided, int] = {}
        self._looked_into: dict[type[models.Model], int] = {}
        self._told = False

    def tell_again(self) -> None:
        """Let the next new writer be told of as the first."""
        self._told = False

    def count_writes(self, model: type[models.Model], rows: int) -> None:
        """Count rows that were written. Called by every save, so it makes as few calls as it can."""
        key = model, _reconciler(), _manager()
        with self._lock:
            tally = self._tallies.get(key) or self._new_tally(key)
            tally[WRITES] += rows

    def count_conflicts(self, model: type[models.Model], rows: int) -> None:
        """Count rows that were refused."""
        key = model, _reconciler(), _manager()
        with self._lock:
            tally = self._tallies.get(key) or self._new_tally(key)
            tally[CONFLICTS] += rows

    def wants_sample(self, model: type[models.Model], limit: int) -> bool:
        """Tell whether another conflict of ``model`` shall be looked into, and take it as done."""
        with self._lock:
            taken = self._looked_into.get(model, 0)
            if taken >= limit:
                return False
            self._looked_into[model] = taken + 1
            return True

    def count_collision(self, collided: collisions.Collided) -> None:
        """Count one conflict that was looked into."""
        with self._lock:
            if collided in self._collisions or len(self._collisions) < MOST_WRITERS:
                self._collisions[collided] = self._collisions.get(collided, 0) + 1

    def drain(self) -> tuple[Counts, dict[collisions.Collided, int]]:
        """Return what was counted, and start at zero."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
            collided, self._collisions = self._collisions, {}
            self._looked_into = {}
        counts: Counts = {}
        for (model, reconciler, manager), tally in tallies.items():
            add(counts, (model._meta.label, reconciler, _folded(manager)), tally)
        return counts, collided

    def _new_tally(self, key: _Key) -> list[int]:
        if len(self._tallies) >= MOST_WRITERS:
            key = key[0], "", OTHERS
        if not self._told:
            self._told = True
            if self.on_first is not None:
                self.on_first()
        return self._tallies.setdefault(key, [0, 0])


def add(counts: Counts, writer: Writer, tally: list[int]) -> None:
    """Add a tally to what ``counts`` has of the writer."""
    total = counts.setdefault(writer, [0, 0])
    total[WRITES] += tally[WRITES]
    total[CONFLICTS] += tally[CONFLICTS]


def _folded(manager: str | None) -> str:
    if manager is None:
        return UNKNOWN_MANAGER
    return PEOPLE if manager.startswith(f"{PEOPLE}:") else manager


counters = Counters()


def count_conflict(sender: type[models.Model], conflict: Conflict, **kwargs: Any) -> None:
    """Receive ``conflict_detected``."""
    if not conflict.may_be_retried:
        return  # a mistake of the caller, not a rival
    rows = len(conflict.conflicts) if isinstance(conflict, BulkConflict) else 1
    counters.count_conflicts(conflict.model, rows)
    limit = collisions.samples_per_flush()
    if limit and collisions.can_be_looked_into(conflict) and counters.wants_sample(conflict.model, limit):
        collided = collisions.look_into(conflict, _reconciler() or _folded(_manager()))
        if collided is not None:
            counters.count_collision(collided)

"""From memory to the table, every few seconds: a thread of each process that writes.

A thread, since the writers themselves have no good moment for it: in their transactions it would be rolled back or
hold locks, and after them it would delay an answer. It starts with the first count and sleeps otherwise; it is a
daemon, so no process waits for it, and what it has not stored is stored when the process ends in an orderly way.
A process that is killed loses what it counted since the last flush.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from django.core import mail
from django.db import Error, router

from occ.conf import occ_settings
from occ.contention import storage
from occ.contention.collisions import Collided
from occ.contention.counting import Counters, Counts, add, counters
from occ.contention.models import MINUTE, Bucket
from occ.contention.rule import WINDOW, LineWatch

logger = logging.getLogger("occ")

K = TypeVar("K")
V = TypeVar("V")

PRUNE_SECONDS = 3600
# Minutes of counts that are kept in memory while the database cannot be reached.
MOST_UNSTORED = 60
CHECK_SECONDS = 60  # how often the line is looked at, while there are conflicts


class Flusher:
    """Stores the counts of one process.

    Args:
        counters: what to store.
        clock: seconds since 1970.
    """

    def __init__(self, counters: Counters, *, clock: Callable[[], float] = time.time) -> None:
        self.counters = counters
        self.clock = clock
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._unstored: dict[int, Counts] = {}  # by minute
        self._collided: dict[int, dict[Collided, int]] = {}
        self._next_prune = 0.0
        self._next_check = 0.0
        self._failing = False
        self._testing = False  # until this process ends: a test run is over before that
        self._line = LineWatch()

    def begin_anew(self) -> None:
        """Start from nothing, in a forked child."""
        self._reset()
        self.counters.begin_anew()

    def start(self) -> None:
        """Start the thread, unless nothing shall be stored by itself."""
        if _in_test_run():
            self._testing = True
        if self._testing or not occ_settings.FLUSH_SECONDS:
            return
        thread = threading.Thread(target=self._run, name="occ.contention", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is about to end and flushes at its exit, or there are too many threads just now.
            self.counters.tell_again()
            return
        self._thread = thread

    def _run(self) -> None:
        while True:
            time.sleep(occ_settings.FLUSH_SECONDS or 5.0)
            try:
                self.flush()
            except Exception:
                logger.exception("Counts of writes and conflicts were not stored; they are kept for the next time.")

    def flush(self) -> int:
        """Store what was counted so far, and return how many rows were written to the table of buckets.

        Works inside a transaction too, on another connection; on SQLite it then waits in vain for a transaction of
        the caller's that has written. What cannot be stored is kept for the next time, and a log line tells why.
        """
        with self._lock:
            now = self.clock()
            self._take_up(now)
            if not self._unstored:
                return 0
            try:
                stored = self._store(now)
            except Error as error:
                self._tell_once(error)
                return 0
            self._failing = False
            return stored

    def flush_at_exit(self) -> None:
        """Store the rest when the process ends."""
        if self._testing or self._failing:
            return  # failing: it would hold up the end for nothing
        try:
            self.flush()
        except Exception:
            logger.exception("The last counts of writes and conflicts were not stored.")

    def _take_up(self, now: float) -> None:
        counts, collided = self.counters.drain()
        minute = int(now) // MINUTE * MINUTE
        if counts:
            unstored = self._unstored.setdefault(minute, {})
            for writer, tally in counts.items():
                add(unstored, writer, tally)
        if collided:
            known = self._collided.setdefault(minute, {})
            for each, count in collided.items():
                known[each] = known.get(each, 0) + count
        for kept in (self._unstored, self._collided):
            while len(kept) > MOST_UNSTORED:
                del kept[min(kept)]

    def _store(self, now: float) -> int:
        stored = 0
        with storage.own_connection(router.db_for_write(Bucket)) as connection:
            if connection is None:
                self._unstored.clear()
                self._collided.clear()
                return 0
            # What a statement has stored is forgotten at once: should the next one fail, it is not stored again.
            for minute in sorted(self._unstored):
                for part in _parts(self._unstored[minute]):
                    storage.store_counts(connection, part, minute)
                    stored += 2 * len(part)
                del self._unstored[minute]
            for minute in sorted(self._collided):
                for some in _parts(self._collided[minute]):
                    storage.store_collisions(connection, some, minute)
                del self._collided[minute]
            if now >= self._next_prune:
                storage.prune(connection, now)
                self._next_prune = now + PRUNE_SECONDS
            if now >= self._next_check:
                self._next_check = now + CHECK_SECONDS
                self._line.look(storage.totals_since(connection, now - WINDOW))
        return stored

    def _tell_once(self, error: Error) -> None:
        if not self._failing:
            logger.warning(
                "Counts of writes and conflicts cannot be stored (%s); they are kept and tried again. Is the app "
                "occ.contention migrated?",
                " ".join(str(error).split()),
            )
        self._failing = True


def _parts(counts: dict[K, V]) -> Iterator[dict[K, V]]:
    """Yield what one statement may store, in the order of its keys, and remove it when the next is asked for."""
    while counts:
        part = {key: counts[key] for key in sorted(counts)[: storage.WRITERS_PER_STATEMENT]}  # type: ignore[type-var]
        yield part
        for key in part:
            del counts[key]


def _in_test_run() -> bool:
    """Tell whether Django's test runner, or pytest-django, has set this process up.

    Nothing is stored by itself there: it would come at a random moment of somebody's test, and find no table, an
    in-memory database, or one that is about to be dropped. Tests call ``flusher.flush()``.
    """
    return hasattr(mail, "outbox")


flusher = Flusher(counters)

"""A small model of writers on rows: who is refused, who waits, what it costs. Discrete events, seeded, no database.

What it leaves out: the database is never the limit (each statement takes the same time however many run), no two keys
are hotter than others, and the time between a read and its write is the same for all. ``benchmarks.plan`` compares it
with a real PostgreSQL.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

from occ.backoff import Backoff
from occ.retry import DEFAULT_BACKOFF, LOCK_AFTER
from occ.turns import HOT_SECONDS

Strategy = Literal["optimistic", "escalated", "owned", "queued"]
STRATEGIES: tuple[Strategy, ...] = ("optimistic", "escalated", "owned", "queued")


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of the rows.

    Attributes:
        writers: how many write at once, each the next time only when it is done.
        keys: rows, of which each write takes one at random.
        window: seconds from having read a row to writing it.
        rate: writes per second of each writer, at random moments.
        statement: seconds of one statement, the way to the database and back.
        workers: of the work queue, all processes together.
    """

    writers: int
    keys: int
    window: float
    rate: float
    statement: float = 0.001
    workers: int = 8


@dataclass(kw_only=True)
class Outcome:
    """What came of it, for the writes that ended after the warm-up."""

    successes: int = 0
    conflicts: int = 0
    statements: int = 0  # BEGIN and COMMIT apart
    given_up: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def conflict_rate(self) -> float:
        """Refused attempts as a share of all, 0 to 1."""
        attempts = self.successes + self.conflicts
        return self.conflicts / attempts if attempts else 0.0

    @property
    def retries_per_success(self) -> float:
        """Attempts beyond the first for each write that succeeded."""
        return (self.conflicts - self.given_up) / self.successes if self.successes else float("inf")

    @property
    def statements_per_success(self) -> float:
        """Statements for each write that succeeded, those of refused attempts included."""
        return self.statements / self.successes if self.successes else float("inf")

    def latency(self, share: float) -> float:
        """Return the seconds that ``share`` of the successful writes took at most."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


class _Lock:
    """A row's lock, given in the order of asking."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held = False
        self.waiting: deque[_Process] = deque()


class _Row:
    __slots__ = ("item", "lock", "pending", "queued", "turn", "version")

    def __init__(self) -> None:
        self.version = 0
        self.lock = _Lock()
        self.turn = _Lock()
        self.item = _Lock()  # of its work item
        self.pending: list[Callable[[], None]] = []  # who is told when the next run has written
        self.queued = False


# A process yields seconds to let pass, a lock to wait for and take, or None where it is an idle worker.
_Process = Generator[float | _Lock | None, None, None]


class Simulation:
    """One strategy under one load, for ``seconds`` after a warm-up of a fifth of it."""

    def __init__(self, load: Load, strategy: Strategy, *, seconds: float, seed: int = 1) -> None:
        self.load = load
        self.strategy = strategy
        self.seconds = seconds
        self.chance = random.Random(seed)  # noqa: S311 - chance, no secret
        self.backoff = Backoff(
            base=DEFAULT_BACKOFF.base,
            factor=DEFAULT_BACKOFF.factor,
            cap=DEFAULT_BACKOFF.cap,
            jitter=DEFAULT_BACKOFF.jitter,
            attempts=DEFAULT_BACKOFF.attempts,
            random=self.chance,
        )
        self.lock_after = LOCK_AFTER if strategy == "escalated" else None
        self.rows = [_Row() for _ in range(load.keys)]
        self.now = 0.0
        self.warm = seconds * 0.2
        self.outcome = Outcome(seconds=seconds)
        self._events: list[tuple[float, int, _Process]] = []
        self._number = 0
        self._due: deque[_Row] = deque()
        self._idle: deque[_Process] = deque()

    def run(self) -> Outcome:
        """Run to the end and return what came of it."""
        for _ in range(self.load.writers):
            self._resume_in(self.chance.expovariate(self.load.rate), self._writer())
        if self.strategy == "queued":
            for _ in range(self.load.workers):
                worker = self._worker()
                self._step(worker)
        end = self.warm + self.seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, process = heapq.heappop(self._events)
            self._step(process)
        return self.outcome

    # -- the machinery -----------------------------------------------------------------------------------------------

    def _resume_in(self, seconds: float, process: _Process) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, process))

    def _step(self, process: _Process) -> None:
        while True:
            wanted = next(process)
            if wanted is None:
                self._idle.append(process)
                return
            if isinstance(wanted, _Lock):
                if wanted.held:
                    wanted.waiting.append(process)
                    return
                wanted.held = True
                continue
            self._resume_in(wanted, process)
            return

    def _release(self, lock: _Lock) -> None:
        if lock.waiting:
            self._resume_in(0.0, lock.waiting.popleft())  # it holds the lock from now on
        else:
            lock.held = False

    @property
    def _counts(self) -> bool:
        return self.now >= self.warm

    # -- writers -----------------------------------------------------------------------------------------------------

    def _writer(self) -> _Process:
        hot_until: dict[_Row, float] = {}  # where this writer was refused
        while True:
            begun = self.now
            row = self.chance.choice(self.rows)
            if self.strategy == "queued":
                done = yield from self._enqueue(row, begun)
            elif self.strategy == "owned":
                done = yield from self._apply(row)
            else:
                done = yield from self._mutate(row, hot_until)
            if self._counts and done and self.strategy != "queued":
                self.outcome.successes += 1
                self.outcome.latencies.append(self.now - begun)
            following = begun + self.chance.expovariate(self.load.rate)
            yield max(0.0, following - self.now)

    def _statements(self, number: int) -> None:
        if self._counts:
            self.outcome.statements += number

    def _mutate(self, row: _Row, hot_until: dict[_Row, float]) -> Generator[float | _Lock | None, None, bool]:
        """Read, change, write if unchanged; on a conflict again after the backoff, then in turn, then locked."""
        half = self.load.statement / 2
        attempts = self.backoff.attempts or 1
        for attempt in range(attempts):
            last = attempt == attempts - 1
            locked = self.lock_after is not None and attempt > 0 and (last or attempt >= self.lock_after)
            in_turn = locked or (self.lock_after is not None and (attempt > 0 or hot_until.get(row, 0.0) > self.now))
            yield self.load.statement  # BEGIN
            yield half
            if in_turn:  # a statement of its own
                yield row.turn
                self._statements(1)
                yield self.load.statement
            if locked:
                yield row.lock
            self._statements(1)
            version = row.version
            yield half + self.load.window + half
            self._statements(1)
            if not locked:
                yield row.lock
            written = row.version == version
            if written:
                yield self.load.statement  # the UPDATE returns, COMMIT arrives
                row.version += 1
                self._release(row.lock)
            else:
                self._release(row.lock)
                self._statements(1)  # the refusal reads the version that is there now
                yield 2 * self.load.statement  # and the transaction is rolled back
            if in_turn:
                self._release(row.turn)
            yield half
            if written:
                return True
            hot_until[row] = self.now + HOT_SECONDS
            if self._counts:
                self.outcome.conflicts += 1
            if not last:
                yield self.backoff.delay(attempt)
        if self._counts:
            self.outcome.given_up += 1
        return False

    def _apply(self, row: _Row) -> Generator[float | _Lock | None, None, bool]:
        """Read, change, write the fields that the writer owns: whatever others changed does not matter."""
        half = self.load.statement / 2
        self._statements(2)
        yield self.load.statement * 2 + self.load.window + half
        yield row.lock
        yield self.load.statement
        row.version += 1
        self._release(row.lock)
        yield half
        return True

    # -- the work queue ----------------------------------------------------------------------------------------------

    def _enqueue(self, row: _Row, begun: float) -> Generator[float | _Lock | None, None, bool]:
        """Ask for a run, and leave: the run that begins after this serves all who asked before."""
        half = self.load.statement / 2
        self._statements(1)
        yield self.load.statement + half
        yield row.item
        yield self.load.statement
        self._release(row.item)

        def served() -> None:
            if self._counts:
                self.outcome.successes += 1
                self.outcome.latencies.append(self.now - begun)

        row.pending.append(served)
        if not row.queued:
            row.queued = True
            self._due.append(row)
            if self._idle:
                self._resume_in(0.0, self._idle.popleft())
        yield half
        return True

    def _worker(self) -> _Process:
        while True:
            if not self._due:
                yield None
                continue
            row = self._due.popleft()
            self._statements(4)
            yield 2 * self.load.statement  # claim, read
            served, row.pending = row.pending, []
            yield self.load.window + 3 * self.load.statement  # write, finish, COMMIT
            for tell in served:
                tell()
            row.queued = bool(row.pending)
            if row.queued:
                self._due.append(row)

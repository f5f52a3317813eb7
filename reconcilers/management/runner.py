"""Working the queue without a broker: poll, claim a few, run them, until told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from django.db import Error, connections

from reconcilers import controller
from reconcilers.conf import reconciler_settings
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import steps, sweeper

logger = logging.getLogger("reconcilers")

# Seconds between looks at an empty queue.
POLL_SECONDS = 0.25

# Seconds for which a batch may be held; the rest of it is given back, and the lease left is long enough.
HOLD_SECONDS = 1.0


class Stop:
    """Whether to end. A signal may set it at any moment: unlike ``threading.Event`` it takes no lock."""

    def __init__(self) -> None:
        self._wanted = False

    def set(self) -> None:
        """Ask for the end."""
        self._wanted = True

    def is_set(self) -> bool:
        """Whether somebody has asked for it."""
        return self._wanted

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or soon after somebody has asked for the end."""
        until = time.monotonic() + seconds
        while not self._wanted and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, POLL_SECONDS))


class Runner:
    """Works the queues of several databases in one thread; ``stop`` is set by whoever wants it to end.

    A claim that it has not begun when it is told to stop, it gives back.
    """

    def __init__(
        self,
        reconcilers: Sequence[Reconciler],
        databases: Sequence[str],
        *,
        stop: Stop,
        batch: int = 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reconcilers = list(reconcilers)
        self.databases = list(databases)
        self.stop = stop
        self.batch = batch
        self._clock = clock
        self._swept_at: dict[str, float] = {}
        self._left_until: dict[str, float] = {}
        self.runs = 0

    def work(self) -> None:
        """Work until told to stop."""
        while not self.stop.is_set():
            if not sum(self._try(using) for using in self.databases):
                self.stop.wait(POLL_SECONDS)

    def _try(self, using: str) -> int:
        """Sweep and work one database, unless it did not answer a moment ago: the others go on meanwhile."""
        if self._clock() < self._left_until.get(using, -float("inf")):
            return 0
        try:
            self._sweep_if_time(using)
            return self._work_on(using)
        except Error as error:
            logger.error("Database %r does not answer (%s); trying again.", using, error)
            connections[using].close()
            self._left_until[using] = self._clock() + reconciler_settings.SWEEP_SECONDS
            return 0

    def work_until_idle(self) -> None:
        """Work until nothing is due any more."""
        self.sweep_if_time()
        while not self.stop.is_set() and self.work_once():
            pass

    def work_once(self) -> int:
        """Give each reconciler that has something due one batch of turns, and return the number of turns."""
        return sum(self._work_on(using) for using in self.databases)

    def sweep_if_time(self) -> None:
        """Sweep, as often as the settings say."""
        for using in self.databases:
            self._sweep_if_time(using)

    def _sweep_if_time(self, using: str) -> None:
        if self._clock() - self._swept_at.get(using, -float("inf")) >= reconciler_settings.SWEEP_SECONDS:
            self._swept_at[using] = self._clock()
            sweeper.sweep(using=using)

    def _work_on(self, using: str) -> int:
        before = self.runs
        for waiting in steps.waiting(self.reconcilers, using=using):
            self._work_batch(waiting, using)
        return self.runs - before

    def _work_batch(self, waiting: steps.Waiting, using: str) -> None:
        until = self._clock() + HOLD_SECONDS
        worked = self._work_claims(waiting, using)
        while worked == 1 and waiting.expired and self._clock() < until:  # those of dead workers come one at a time
            worked = self._work_claims(waiting, using)

    def _work_claims(self, waiting: steps.Waiting, using: str) -> int:
        if self.stop.is_set():
            return 0
        before = self.runs
        until = self._clock() + min(HOLD_SECONDS, waiting.reconciler.lease_seconds / 2)
        claims = steps.claim_many(waiting, using=using, limit=self.batch)
        try:
            while claims and not self.stop.is_set() and self._clock() < until:
                controller.run(waiting.reconciler, claims.pop(0))
                self.runs += 1
        finally:
            # Those that it does not get to, another worker may.
            for claim in claims:
                steps.release(claim)
        return self.runs - before

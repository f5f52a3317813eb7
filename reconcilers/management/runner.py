"""Working the queue without a broker: poll, claim a few, run them, until told to stop."""

from __future__ import annotations

import logging
import threading
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


class Runner:
    """Works the queues of several databases in one thread; ``stop`` is set by whoever wants it to end.

    A claim that it has not begun when it is told to stop, it gives back.
    """

    def __init__(
        self,
        reconcilers: Sequence[Reconciler],
        databases: Sequence[str],
        *,
        stop: threading.Event,
        batch: int = 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reconcilers = list(reconcilers)
        self.databases = list(databases)
        self.stop = stop
        self.batch = batch
        self._clock = clock
        self._swept_at = -float("inf")
        self.runs = 0

    def work(self) -> None:
        """Work until told to stop."""
        while not self.stop.is_set():
            try:
                self.sweep_if_time()
                found = self.work_once()
            except Error as error:
                logger.error("The database does not answer (%s); trying again.", error)
                connections.close_all()
                self.stop.wait(reconciler_settings.SWEEP_SECONDS)
                continue
            if not found:
                self.stop.wait(POLL_SECONDS)

    def work_until_idle(self) -> None:
        """Work until nothing is due any more."""
        self.sweep_if_time()
        while not self.stop.is_set() and self.work_once():
            pass

    def work_once(self) -> int:
        """Give each reconciler that has something due one batch of turns, and return the number of turns."""
        before = self.runs
        for using in self.databases:
            for waiting in steps.waiting(self.reconcilers, using=using):
                self._work_batch(waiting, using)
        return self.runs - before

    def sweep_if_time(self) -> None:
        """Sweep, as often as the settings say."""
        if self._clock() - self._swept_at < reconciler_settings.SWEEP_SECONDS:
            return
        self._swept_at = self._clock()
        for using in self.databases:
            sweeper.sweep(using=using)

    def _work_batch(self, waiting: steps.Waiting, using: str) -> None:
        if self.stop.is_set():
            return
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

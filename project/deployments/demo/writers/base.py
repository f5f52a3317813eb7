"""What all writers share: a change is read, made, written, and begun again from the read when it is refused."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from occ.backoff import Backoff
from project.deployments.demo.events import GUARDED, Event, EventLog, What

BACKOFF = Backoff(base=0.005, factor=2.0, cap=0.2, attempts=12)
THINK_SECONDS = 0.008  # at most, between reading and writing: what makes it a race
PAUSE_SECONDS = 0.06  # at most, between two changes


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A change that was written.

    Attributes:
        counter: the counter of the row that it raised; empty if none.
        version: the version that it became, where the writer is told.
        resubmitted: how often it was sent again, after a refusal, within the attempt.
    """

    counter: str
    version: int | None = None
    resubmitted: int = 0


@dataclass(frozen=True, kw_only=True)
class Target:
    """The fleet to write to: ``"guarded"`` or ``"unguarded"``, and the key of each deployment by its name."""

    fleet: str
    deployments: Mapping[str, int]

    @property
    def guarded(self) -> bool:
        """Whether writes are conditional on a version."""
        return self.fleet == GUARDED


class Writer(ABC):
    """One writer; it lives in one thread."""

    kind: ClassVar[str]

    def __init__(self, name: str, *, log: EventLog, random: random.Random) -> None:
        self.name = name
        self.log = log
        self.random = random

    @abstractmethod
    def change(self, target: Target, name: str) -> None:
        """Make one change of the deployment called ``name``, and tell what came of it."""

    def writes_to(self, target: Target) -> bool:
        """Tell whether this writer takes part in a race for that fleet."""
        return True

    def race(self, target: Target, *, until: float) -> None:
        """Make one change after the other until the monotonic clock says ``until``."""
        while time.monotonic() < until:
            name = self.random.choice(list(target.deployments))
            try:
                self.change(target, name)
            except Exception as error:  # the demo counts it, and the others go on
                self.tell(What.FAILED, target, name, detail=f"{type(error).__name__}: {error}")
            time.sleep(self.random.uniform(0, PAUSE_SECONDS))

    def tell_accepted(self, target: Target, name: str, accepted: Accepted, *, seconds: float, retries: int) -> None:
        """Record an accepted change, at once and apart from the database."""
        self.tell(
            What.ACCEPTED,
            target,
            name,
            counter=accepted.counter,
            version=accepted.version,
            seconds=seconds,
            retries=retries + accepted.resubmitted,
        )

    def think(self) -> None:
        """Take the time that deciding takes."""
        time.sleep(self.random.uniform(0, THINK_SECONDS))

    def tell(self, what: What, target: Target, name: str, **facts: Any) -> None:
        self.log.append(
            Event(
                what=what,
                kind=self.kind,
                writer=self.name,
                fleet=target.fleet,
                pk=target.deployments[name],
                **facts,
            )
        )


class RetryingWriter(Writer):
    """A writer that sees to its own retries; each attempt starts with a read."""

    @abstractmethod
    def attempt(self, target: Target, name: str) -> Accepted | None:
        """Read the deployment, change it, write it; None: refused, because somebody else had written meanwhile."""

    def change(self, target: Target, name: str) -> None:
        """Make one change, from a fresh read again after each refusal, at most 12 times."""
        started = time.perf_counter()
        retries = 0
        for delay in (*BACKOFF.delays(), None):
            accepted = self.attempt(target, name)
            if accepted is not None:
                self.tell_accepted(target, name, accepted, seconds=time.perf_counter() - started, retries=retries)
                return
            self.tell(What.CONFLICT, target, name)
            if delay is not None:
                retries += 1
                time.sleep(delay)
        self.tell(What.GAVE_UP, target, name)

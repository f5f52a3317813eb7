"""What the writers did, counted by kind while it happens."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from project.deployments.demo.events import Event, What

LINE = 0.05  # conflicts per write attempt above which a row is hot


@dataclass(kw_only=True)
class Count:
    """What the writers of one kind did in one act.

    Attributes:
        writes: changes that were accepted.
        conflicts: writes that were refused because somebody else had written.
        retries: attempts after the first, of changes that were accepted in the end.
        requeues: runs that the work queue was given back.
        gave_up: changes that were refused too often and dropped.
        seconds: how long each accepted change took, refused attempts and waits included.
    """

    writes: int = 0
    conflicts: int = 0
    retries: int = 0
    requeues: int = 0
    gave_up: int = 0
    seconds: list[float] = field(default_factory=list, repr=False)

    @property
    def conflict_rate(self) -> float:
        """Refused writes as a share of all attempted ones."""
        attempts = self.writes + self.conflicts
        return self.conflicts / attempts if attempts else 0.0

    def percentile(self, share: float) -> float | None:
        """Return the seconds that ``share`` of the changes took at most; None without any."""
        if not self.seconds:
            return None
        return sorted(self.seconds)[max(0, math.ceil(share * len(self.seconds)) - 1)]

    def plus(self, other: "Count") -> "Count":
        """Return both together."""
        return Count(
            writes=self.writes + other.writes,
            conflicts=self.conflicts + other.conflicts,
            retries=self.retries + other.retries,
            requeues=self.requeues + other.requeues,
            gave_up=self.gave_up + other.gave_up,
            seconds=self.seconds + other.seconds,
        )


class Tally:
    """The counts of one act, by kind of writer."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Count] = defaultdict(Count)
        self.failures: list[str] = []

    def add(self, event: Event) -> None:
        """Count one event."""
        count = self.counts[event.kind]
        if event.what is What.ACCEPTED:
            count.writes += 1
            count.retries += event.retries
            count.seconds.append(event.seconds)
        elif event.what is What.CONFLICT:
            count.conflicts += 1
        elif event.what is What.GAVE_UP:
            count.gave_up += 1
        elif event.what is What.RECONCILED:
            count.retries += event.retries
            count.requeues += event.requeued
            count.seconds.append(event.seconds)
        elif event.what is What.FAILED:
            self.failures.append(f"{event.writer}: {event.detail}")

    @property
    def total(self) -> Count:
        """All kinds together."""
        return total(self.counts.values())


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of some counts."""
    result = Count()
    for count in counts:
        result = result.plus(count)
    return result

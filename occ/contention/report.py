"""What was counted, put together: per model for a window of time, with what to do about it.

Every query here is bounded by the window and the number of writers, never by what else the tables hold.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from django.db import router
from django.db.models import Sum

from occ.contention.advice import Advice, advise
from occ.contention.models import HALF_HOUR, MINUTE, Bucket, Collision
from occ.contention.rule import WINDOW, is_above_line, rate_of

LEAST_FOR_A_RATE = 50  # attempts in a slot; a rate of fewer is noise
MOST_COLLISIONS = 1000  # rows read; the most frequent ones


@dataclass(frozen=True, kw_only=True)
class Window:
    """A span of time that ends now, cut into slots.

    Attributes:
        title: what it is called.
        seconds: how long it is.
        width: of the buckets that are read.
        slot: seconds of each point of the chart, and of what "worst" looks for.
    """

    title: str
    seconds: int
    width: int
    slot: int


WINDOWS = {
    "1h": Window(title="1 h", seconds=3600, width=MINUTE, slot=WINDOW),
    "24h": Window(title="24 h", seconds=24 * 3600, width=HALF_HOUR, slot=HALF_HOUR),
    "7d": Window(title="7 d", seconds=7 * 24 * 3600, width=HALF_HOUR, slot=3 * 3600),
}


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The counts from ``start``, seconds since 1970, on."""

    start: int
    writes: int
    conflicts: int

    @property
    def rate(self) -> float | None:
        """The share that was refused; None where there is too little to tell."""
        enough = self.writes + self.conflicts >= LEAST_FOR_A_RATE
        return rate_of(self.writes, self.conflicts) if enough else None


@dataclass(frozen=True, kw_only=True)
class WriterCounts:
    """The part of one writer: a reconciler, or else a field manager."""

    reconciler: str
    manager: str
    writes: int
    conflicts: int

    @property
    def name(self) -> str:
        """What to call it."""
        return self.reconciler or self.manager


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """One model in one window.

    Attributes:
        model: its label.
        writes: guarded writes that were accepted, by rows.
        conflicts: those that were refused.
        rate: conflicts by writes and conflicts, 0 to 1.
        attempts_per_success: attempts for each accepted write; None where none was.
        worst: the slot with the highest rate, or None where no slot has enough to tell.
        above_line: whether the last five minutes were above the line.
        crossed: whether any slot was.
        writers: who wrote it, the most refused first.
        advice: what to do, where a slot was above the line.
        slots: all of them, oldest first, the empty ones included.
    """

    model: str
    writes: int
    conflicts: int
    rate: float
    attempts_per_success: float | None
    worst: Slot | None
    above_line: bool
    crossed: bool
    writers: list[WriterCounts]
    advice: Advice | None
    slots: list[Slot]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON takes it, without the slots."""
        facts = asdict(self)
        del facts["slots"]
        if self.worst is not None:
            facts["worst"]["rate"] = self.worst.rate
        return facts


def report(window: Window, *, now: float | None = None) -> list[ModelReport]:
    """Report on every model that was written in the window, the most contended first.

    Args:
        now: seconds since 1970, where the window ends; by default this moment.
    """
    now = time.time() if now is None else now
    end = int(now) // window.slot * window.slot + window.slot
    start = end - window.seconds // window.slot * window.slot
    alias = router.db_for_read(Bucket)
    buckets = Bucket.objects.using(alias).filter(width=window.width, start__gte=start, start__lt=end)
    slots: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for model, at, writes, conflicts in buckets.values_list("model", "start").annotate(Sum("writes"), Sum("conflicts")):
        slot = slots[model][at // window.slot * window.slot]
        slot[0] += writes
        slot[1] += conflicts
    writers: dict[str, list[WriterCounts]] = defaultdict(list)
    for model, reconciler, manager, writes, conflicts in buckets.values_list("model", "reconciler", "manager").annotate(
        Sum("writes"), Sum("conflicts")
    ):
        writers[model].append(WriterCounts(reconciler=reconciler, manager=manager, writes=writes, conflicts=conflicts))
    recently = _recent_totals(alias, now)
    collisions = _collisions(alias, start)
    reports = [
        _report_on(
            model,
            [Slot(start=at, writes=found[at][0], conflicts=found[at][1]) for at in range(start, end, window.slot)],
            writers[model],
            recently.get(model, (0, 0)),
            collisions.get(model, []),
        )
        for model, found in slots.items()
    ]
    return sorted(reports, key=lambda each: (-each.rate, each.model))


def _report_on(
    model: str,
    slots: list[Slot],
    writers: list[WriterCounts],
    recently: tuple[int, int],
    collisions: list[Collision],
) -> ModelReport:
    writes, conflicts = sum(slot.writes for slot in slots), sum(slot.conflicts for slot in slots)
    writers = sorted(writers, key=lambda each: (-each.conflicts, -each.writes, each.reconciler, each.manager))
    above = is_above_line(*recently)
    crossed = above or any(is_above_line(slot.writes, slot.conflicts) for slot in slots)
    rated = [slot for slot in slots if slot.rate is not None]
    return ModelReport(
        model=model,
        writes=writes,
        conflicts=conflicts,
        rate=rate_of(writes, conflicts),
        attempts_per_success=(writes + conflicts) / writes if writes else None,
        worst=max(rated, key=lambda slot: slot.rate or 0.0, default=None),
        above_line=above,
        crossed=crossed,
        writers=writers,
        advice=advise([(w.name, w.writes, w.conflicts) for w in writers], collisions) if crossed else None,
        slots=slots,
    )


def _recent_totals(alias: str, now: float) -> dict[str, tuple[int, int]]:
    minutes = Bucket.objects.using(alias).filter(width=MINUTE, start__gte=int(now) - WINDOW, start__lte=now)
    rows = minutes.values_list("model").annotate(Sum("writes"), Sum("conflicts"))
    return {model: (writes, conflicts) for model, writes, conflicts in rows}


def _collisions(alias: str, start: int) -> dict[str, list[Collision]]:
    found: dict[str, list[Collision]] = defaultdict(list)
    rows = Collision.objects.using(alias).filter(start__gte=start // HALF_HOUR * HALF_HOUR)
    for collision in rows.order_by("-count")[:MOST_COLLISIONS]:
        found[collision.model].append(collision)
    return found

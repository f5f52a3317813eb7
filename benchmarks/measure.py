"""How everything here is measured: variants shuffled operation by operation, medians, bootstrap intervals, A/A control.

Machines are noisy and drift; so variants are timed in turn, in random order, on a row of their own each, with the
garbage collector off, and what is reported is the ratio of medians with a 95 % interval. One variant is always the
baseline a second time: a run in which that control strays from 1.00 by more than 3 % says nothing and is not used.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CONTROL = "control (baseline again)"
CONTROL_RANGE = (0.97, 1.03)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The median time of a variant as a share of the baseline's, with its 95 % bootstrap interval."""

    variant: str
    ratio: float
    low: float
    high: float
    microseconds: float

    def as_dict(self) -> dict[str, float | str]:
        return {
            "variant": self.variant,
            "ratio": round(self.ratio, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "microseconds": round(self.microseconds, 1),
        }


def compare(
    variants: Mapping[str, Callable[[], object]], *, baseline: str, rounds: int, seed: int = 1, warm_up: int = 20
) -> list[Ratio]:
    """Time every variant ``rounds`` times, interleaved, and return their ratios to ``baseline``."""
    chance = random.Random(seed)  # noqa: S311
    timings: dict[str, list[float]] = {name: [] for name in variants}
    for function in variants.values():
        for _ in range(warm_up):
            function()
    order = list(variants)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            chance.shuffle(order)
            for name in order:
                started = time.perf_counter()
                variants[name]()
                timings[name].append(time.perf_counter() - started)
    finally:
        gc.enable()
    return [ratio(name, times, timings[baseline], chance) for name, times in timings.items() if name != baseline]


def ratio(name: str, times: list[float], base: list[float], chance: random.Random, resamples: int = 400) -> Ratio:
    """Return the ratio of the medians of ``times`` and ``base``, in seconds, with its interval."""
    drawn = sorted(
        statistics.median(chance.choices(times, k=len(times))) / statistics.median(chance.choices(base, k=len(base)))
        for _ in range(resamples)
    )
    return Ratio(
        variant=name,
        ratio=statistics.median(times) / statistics.median(base),
        low=drawn[int(resamples * 0.025)],
        high=drawn[int(resamples * 0.975)],
        microseconds=statistics.median(times) * 1e6,
    )


def control_holds(ratios: list[Ratio]) -> bool:
    """Tell whether the baseline timed against itself came out as 1."""
    control = next(ratio for ratio in ratios if ratio.variant == CONTROL)
    return CONTROL_RANGE[0] <= control.ratio <= CONTROL_RANGE[1]

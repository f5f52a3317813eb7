"""The 5 % rule: when a model counts as contended.

Above about one refused write in twenty the retries stop being the exception: by then the tail of the latencies is
worse than that of writers that lock first (benchmarks/results), and the row should be sharded by field ownership, or
its writes put in a queue. A few refusals among a few writes say nothing; hence the least number of samples.
"""

from __future__ import annotations

import logging

from occ.conf import occ_settings

logger = logging.getLogger("occ")

WINDOW = 300  # seconds
LEAST_SAMPLES = 200  # writes and conflicts in the window


def rate_of(writes: int, conflicts: int) -> float:
    """Return the share of the attempts that were refused, 0 to 1."""
    return conflicts / (writes + conflicts) if conflicts else 0.0


def is_above_line(writes: int, conflicts: int) -> bool:
    """Tell whether the counts of one window are enough to judge, and above the line."""
    return writes + conflicts >= LEAST_SAMPLES and rate_of(writes, conflicts) > occ_settings.CONFLICT_WARN


class LineWatch:
    """Logs when a model crosses the line, once per crossing."""

    def __init__(self) -> None:
        self._above: set[str] = set()

    def look(self, totals: dict[str, tuple[int, int]]) -> None:
        """Look at the writes and conflicts of each model in the last window."""
        above = {model for model, counts in totals.items() if is_above_line(*counts)}
        for model in sorted(above - self._above):
            writes, conflicts = totals[model]
            logger.warning(
                "%s: %.1f %% of the writes of the last %d minutes were refused (%d of %d), above the line of %g %%. "
                "'manage.py contention' tells which fields and writers collide, and what to do.",
                model,
                100 * rate_of(writes, conflicts),
                WINDOW // 60,
                conflicts,
                writes + conflicts,
                100 * occ_settings.CONFLICT_WARN,
            )
        self._above = above

"""Whether a worker's memory stays flat: ``python -m benchmarks.memory [--runs 100000]``.

Runs a reconciler in this process, as ``runreconcilers`` does, on rows that are changed before each of its batches, and
prints by how much the memory that Python holds, and the process as a whole, grew after a warm-up. Returns 1 if Python's
grew by more than 40 bytes a run: the smallest thing that could be left behind by each of them is larger.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import threading
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.queue import database

ROWS = 50
BYTES_PER_RUN = 40
# What caches may still grow by after the warm-up.
SLACK = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder, database(Path(folder)):
        return measure(options.runs)


def measure(runs: int) -> int:
    """Run, measure and tell."""
    from reconcilers import Reconciler
    from reconcilers.management.runner import Runner
    from reconcilers.registry import get
    from reconcilers.testing import registered
    from tests.library.models import Counter

    class Settler(Reconciler):
        model = Counter

        def reconcile(self, counter: Any) -> None:
            if counter.value == 13:
                raise ValueError("an error in one of fifty")
            counter.value = 0

    with registered(Settler):
        Counter.objects.bulk_create(Counter() for _ in range(ROWS))
        runner = Runner([get(Settler)], ["default"], stop=threading.Event())
        _work(runner, min(runs // 5, 5000))
        tracemalloc.start()
        _work(runner, ROWS * 4)
        traced, resident = _traced(), _resident()
        before = runner.runs
        _work(runner, runs)
        ran = runner.runs - before
        grew, process = _traced() - traced, _resident() - resident
    limit = SLACK + BYTES_PER_RUN * ran
    print(f"{ran:,} runs: Python holds {grew:+,} bytes (at most {limit:,}), the process {process:+,}")
    return int(grew > limit)


def _work(runner: Any, runs: int) -> None:
    from django.db.models import F, Value
    from django.db.models.functions import Mod

    from tests.library.models import Counter

    until = runner.runs + runs
    while runner.runs < until:
        # Each row is changed, and one of fifty to what fails.
        Counter.objects.update(value=Mod(F("id") + Value(runner.runs % ROWS), Value(ROWS)) + 1)
        runner.sweep_if_time()
        while runner.work_once():
            pass


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


if __name__ == "__main__":
    sys.exit(main())

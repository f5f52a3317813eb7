"""How well ``contention plan`` predicts: ``python -m benchmarks.plan [--quick] [--json PATH]``.

Threads write rows on PostgreSQL (DATABASE_URL) through ``mutate`` at random moments, at several loads, and their
conflicts are counted. Each load is then simulated with the time that a statement took here. The result is the
difference of the two conflict rates, in percentage points, for plain retries and for escalated ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import random
import statistics
import sys
import threading
import time
from collections import UserDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from occ.contention.simulation import Load

WRITERS = 16
WINDOW = 0.03
# Rows and writes per second of each writer: from rare conflicts to half of the attempts.
LOADS = ((200, 2.0), (60, 2.0), (30, 2.0), (16, 2.0), (8, 2.0), (4, 2.0), (2, 2.0))
STRATEGIES = ("optimistic", "escalated")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two loads, one second each: to see that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    if connection.vendor != "postgresql":
        sys.exit("benchmarks.plan measures on PostgreSQL: set DATABASE_URL=postgres://...")
    setup_test_environment()
    logging.getLogger("occ").setLevel(logging.WARNING)  # not a line per conflict
    connection.settings_dict["CONN_MAX_AGE"] = None
    connection.settings_dict["TEST"]["NAME"] = f"test_occ_plan_{os.getpid()}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        report = measure(loads=LOADS[2:4] if options.quick else LOADS, seconds=1.0 if options.quick else 4.0)
    finally:
        connection.creation.destroy_test_db("", verbosity=0)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(f"largest difference {report['largest_error']} points, mean {report['mean_error']}")
    return 0


def measure(*, loads: tuple[tuple[int, float], ...], seconds: float) -> dict[str, Any]:
    """Measure and simulate every load with every strategy."""
    import django
    from django.db import connection

    from occ import turns
    from occ.contention.simulation import Load, Simulation

    turns._hot_until = OfEachThread()  # type: ignore[assignment]  # a thread here stands for a process
    rows: list[dict[str, Any]] = []
    for keys, rate in loads:
        for strategy in STRATEGIES:
            load = Load(writers=WRITERS, keys=keys, window=WINDOW, rate=rate)
            found = run(load, lock=strategy == "escalated", seconds=seconds)
            as_it_was = replace(load, window=found.window, statement=found.statement)
            simulated = Simulation(as_it_was, strategy, seconds=4000 / (WRITERS * rate)).run()  # type: ignore[arg-type]
            row = {
                "strategy": strategy,
                "keys": keys,
                "rate": rate,
                "writes": found.writes,
                "window": round(found.window, 5),
                "statement": round(found.statement, 6),
                "measured": round(found.conflict_rate, 4),
                "simulated": round(simulated.conflict_rate, 4),
                "noise": round(found.noise, 4),
            }
            rows.append(row)
            print(
                f"{strategy:<11} {keys:>4} keys  measured {row['measured']:.3f} ± {row['noise']:.3f}  "
                f"simulated {row['simulated']:.3f}  (statement {1000 * found.statement:.2f} ms)"
            )
    errors = [100 * abs(row["measured"] - row["simulated"]) for row in rows]
    return {
        "database": f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}",
        "django": django.get_version(),
        "python": sys.version.split()[0],
        "writers": WRITERS,
        "window": WINDOW,
        "seconds": seconds,
        "largest_error": round(max(errors), 1),
        "mean_error": round(statistics.mean(errors), 1),
        "loads": rows,
    }


class OfEachThread(UserDict[Any, Any]):
    """A dict of which each thread has its own."""

    def __init__(self) -> None:
        self._own = threading.local()

    @property
    def data(self) -> dict[Any, Any]:  # type: ignore[override]
        found: dict[Any, Any] = self._own.__dict__
        return found


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one load did: accepted and refused writes, and how long window and statement really were."""

    writes: int
    conflicts: int
    window: float
    statement: float

    @property
    def conflict_rate(self) -> float:
        """Refused attempts as a share of all."""
        return self.conflicts / (self.writes + self.conflicts)

    @property
    def noise(self) -> float:
        """Twice the standard error of the rate, were the attempts independent."""
        rate = self.conflict_rate
        return float(2 * (rate * (1 - rate) / (self.writes + self.conflicts)) ** 0.5)


def run(load: Load, *, lock: bool, seconds: float) -> Found:
    """Let threads write at the load for some seconds, and tell what came of it."""
    from django.db import connections

    from occ.contention.counting import counters
    from occ.exceptions import Conflict
    from tests.library.models import Counter

    pks = [counter.pk for counter in Counter.objects.bulk_create([Counter() for _ in range(load.keys)])]
    options: dict[str, Any] = {} if lock else {"lock_after": None}
    begin = threading.Barrier(load.writers)
    failures: list[BaseException] = []

    windows: list[float] = []
    others: list[float] = []  # what an undisturbed attempt takes beside its window

    def write(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311
        attempts: list[float] = []

        def change(counter: Any) -> None:
            began = time.perf_counter()
            time.sleep(load.window)
            attempts.append(time.perf_counter() - began)
            counter.value += 1

        try:
            Counter.objects.get(pk=pks[0])  # opens the connection
            begin.wait()
            end = time.perf_counter() + seconds
            following = time.perf_counter() + chance.expovariate(load.rate)
            while following < end:
                time.sleep(max(0.0, following - time.perf_counter()))
                began = time.perf_counter()
                attempts.clear()
                with contextlib.suppress(Conflict):  # given up after ten attempts, each of which was counted
                    Counter.objects.mutate(chance.choice(pks), change, **options)
                windows.extend(attempts)
                if len(attempts) == 1:
                    others.append(time.perf_counter() - began - attempts[0])
                following = max(time.perf_counter(), began + chance.expovariate(load.rate))
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    counters.drain()
    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(load.writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    writes, conflicts = counters.drain()[0]["library.Counter", "", "unknown"]
    Counter.objects.filter(pk__in=pks).delete()
    # BEGIN, SELECT, UPDATE, COMMIT.
    return Found(
        writes=writes, conflicts=conflicts, window=statistics.mean(windows), statement=statistics.median(others) / 4
    )


if __name__ == "__main__":
    raise SystemExit(main())

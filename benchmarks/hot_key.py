"""One row that 32 processes write: ``python -m benchmarks.hot_key [--quick] [--json PATH]``.

The loop is open: writes come at random moments, whether those before them are done or not, and each one's time counts
from the moment at which it was due. The load is a share of what ``select_for_update`` manages at most. Reported are,
per load and strategy: writes accepted, lost and given up; conflicts as a share of the attempts; statements per accepted
write (BEGIN and COMMIT apart); the median and the 99th percentile of their times; goodput; Jain's fairness index over
the writers. The database is the server that DATABASE_URL names (a test database is created on it and dropped again).
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.strategies import Strategy

WRITERS = 32
LOADS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
CLASSIC = (0.3, 0.6, 0.8)  # the loads at which more strategies are measured
SATURATED, BURST = "saturated", "burst of 32"
AIMED = (*(f"load {load:.0%}" for load in CLASSIC), BURST)  # elsewhere the 99th percentile is that of few writes
P99_AIM, GOODPUT_AIM, STATEMENTS_AIM, FAIRNESS_AIM = 1.5, 0.9, 2.2, 0.8

_forked = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """When the writes are due. ``arrivals`` holds seconds from the start for each writer; None: all the time."""

    name: str
    seconds: float
    arrivals: list[list[float]] | None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a second each: to see that it runs, not to quote")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()
    with database():
        report = measure(seconds=1.0 if options.quick else 8.0, loads=CLASSIC[:1] if options.quick else LOADS)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return verdict(report)


@contextmanager
def database() -> Iterator[None]:
    """Set Django up, and have a database of the benchmark's own for the length of the block."""
    os.environ.setdefault("OCC_TEST_DATABASES", "{}")
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.worker_settings"
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test.utils import setup_test_environment

    from benchmarks.workload.reconcilers import Bare, Idle
    from reconcilers import registry

    if connection.vendor == "sqlite":
        sys.exit("benchmarks.hot_key needs a database server: set DATABASE_URL=postgres://... or mysql://...")
    setup_test_environment()
    settings.RECONCILERS["NUDGE"] = False
    for reconciler in (Idle, Bare):  # they would be asked for by every write
        registry.unregister(reconciler)
    for name in ("occ", "reconcilers"):
        logging.getLogger(name).setLevel(logging.ERROR)  # not a line per conflict
    connection.settings_dict["TEST"]["NAME"] = f"test_occ_hot_key_{os.getpid()}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        connection.creation.destroy_test_db("", verbosity=0)


def measure(*, seconds: float, loads: tuple[float, ...]) -> dict[str, Any]:
    """Run every scenario with every strategy that it is about, in random order."""
    import django
    from django.db import connection

    from benchmarks import strategies

    chance = random.Random(1)  # noqa: S311
    closed = Scenario(name=SATURATED, seconds=seconds, arrivals=None)
    capacity = statistics.median(run(closed, strategies.LOCKED)["goodput"] for _ in range(3 if seconds > 1 else 1))
    burst = [[float(n) for n in range(max(1, int(seconds)))] for _ in range(WRITERS)]
    work = [(Scenario(name=BURST, seconds=seconds, arrivals=burst), one) for one in strategies.ALL]
    work += [(closed, one) for one in strategies.ALL]
    for load in loads:
        arrivals = [_poisson(load * capacity / WRITERS, seconds, chance) for _ in range(WRITERS)]
        scenario = Scenario(name=f"load {load:.0%}", seconds=seconds, arrivals=arrivals)
        measured = strategies.CURVE if load not in CLASSIC else strategies.ALL if load <= 0.3 else strategies.HEAVY
        work += [(scenario, one) for one in measured]
    # Twice the baseline: what it differs from itself is the noise of this run.
    work += [(scenario, strategies.LOCKED) for scenario, one in work if one is strategies.LOCKED]
    chance.shuffle(work)
    print(f"{connection.vendor}, {WRITERS} processes; {capacity:.0f} writes a second under select_for_update")
    rows = []
    for number, (scenario, strategy) in enumerate(work, start=1):
        rows.append(run(scenario, strategy))
        print(f"[{number}/{len(work)}] {_line(rows[-1])}", flush=True)
    return {
        "database": f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}",
        "django": django.get_version(),
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "writers": WRITERS,
        "capacity": round(capacity, 1),
        "rows": rows,
    }


def run(scenario: Scenario, strategy: Strategy) -> dict[str, Any]:
    """Let the writers write, and tell what came of it."""
    from django.db import connections

    row, *own = [strategy.model._default_manager.create() for _ in range(1 + WRITERS)]
    connections.close_all()  # no connection may be shared by forked processes
    pipes, processes = [], []
    for writer in range(WRITERS):
        here, there = _forked.Pipe()
        arrivals = None if scenario.arrivals is None else scenario.arrivals[writer]
        process = _forked.Process(
            target=_write,
            args=(strategy, row.pk, own[writer].pk, writer, arrivals, scenario.seconds, there),
            daemon=True,
        )
        process.start()
        pipes.append(here)
        processes.append(process)
    with _teller() if strategy.queued else _nobody():
        for pipe in pipes:
            pipe.recv()  # it is ready
        start = time.monotonic() + 0.2
        for pipe in pipes:
            pipe.send(start)
        found = [pipe.recv() for pipe in pipes]
        if strategy.queued:
            found = _carried_out(row.pk, start, found)
    for process in processes:
        process.join()
    return _summary(scenario, strategy, row.pk, found)


def _write(
    strategy: Strategy,
    pk: int,
    own: int,
    writer: int,
    arrivals: list[float] | None,
    seconds: float,
    pipe: Any,
) -> None:
    """Write as one process among many; send (time, end) of each write, attempts, statements and refusals.

    What a process does for the first time takes longer, so it has written a row of its own before.
    """
    from django.db import connection

    import occ
    from benchmarks.strategies import Turn

    statements, attempts, refused = 0, 0, 0

    def count(execute: Any, *call: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(*call)

    for _ in range(3):
        strategy.write(own, Turn(writer=writer, due=0.0))
    pipe.send("ready")
    start: float = pipe.recv()
    times = []
    due = iter(arrivals) if arrivals is not None else iter(lambda: time.monotonic() - start, None)
    with connection.execute_wrapper(count):
        for offset in due:
            if offset >= seconds:
                break
            time.sleep(max(0.0, start + offset - time.monotonic()))
            turn = Turn(writer=writer, due=max(start + offset, start))
            try:
                strategy.write(pk, turn)
            except occ.Conflict:
                refused += 1
            else:
                now = time.monotonic()
                times.append((now - turn.due, now - start))
            attempts += turn.reads
    connection.close()
    pipe.send({"times": times, "attempts": attempts, "statements": statements, "refused": refused})
    os._exit(0)


@contextmanager
def _nobody() -> Iterator[None]:
    yield


@contextmanager
def _teller() -> Iterator[None]:
    """Work the queue in a process of its own, as ``runreconcilers`` does."""
    process = _forked.Process(target=_work_the_queue, daemon=True)
    process.start()
    yield
    process.terminate()
    process.join()


def _work_the_queue() -> None:
    from benchmarks.workload.reconcilers import Teller
    from reconcilers import registry
    from reconcilers.management.runner import Runner

    Runner([registry.get(Teller)], ["default"], stop=threading.Event()).work()


def _carried_out(pk: int, start: float, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Wait until every order is carried out; a write has ended when its order has."""
    from benchmarks.workload.models import Order

    orders = Order.objects.filter(account_id=pk)
    while orders.filter(done=None).exists():
        time.sleep(0.05)
    times: list[list[tuple[float, float]]] = [[] for _ in found]
    for writer, due, done in orders.values_list("writer", "due", "done"):
        times[writer].append((done - due, done - start))
    return [{**one, "times": own} for one, own in zip(found, times, strict=True)]


def _summary(scenario: Scenario, strategy: Strategy, pk: int, found: list[dict[str, Any]]) -> dict[str, Any]:
    latencies = sorted(latency for one in found for latency, _ in one["times"])
    accepted = len(latencies)
    attempts = sum(one["attempts"] for one in found)
    last = max((end for one in found for _, end in one["times"]), default=0.0)
    shares = [sum(end <= scenario.seconds for _, end in one["times"]) for one in found]
    wanted = [len(arrivals) for arrivals in scenario.arrivals] if scenario.arrivals else [1] * WRITERS
    shares = [share / due for share, due in zip(shares, wanted, strict=True) if due]
    return {
        "scenario": scenario.name,
        "strategy": strategy.name,
        "accepted": accepted,
        "lost": accepted - strategy.total(pk),
        "gave_up": sum(one["refused"] for one in found),
        "conflicts": round(1 - accepted / attempts, 4) if attempts else 0.0,
        "statements": round(sum(one["statements"] for one in found) / max(1, accepted), 2),
        "p50_ms": round(1000 * _quantile(latencies, 0.5), 2),
        "p99_ms": round(1000 * _quantile(latencies, 0.99), 2),
        "goodput": round(accepted / last, 1) if last else 0.0,
        "fairness": round(sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares) or 1.0), 3),
    }


def _poisson(rate: float, seconds: float, chance: random.Random) -> list[float]:
    found, now = [], chance.expovariate(rate)
    while now < seconds:
        found.append(now)
        now += chance.expovariate(rate)
    return found


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['scenario']:<12} {row['strategy']:<20} {row['accepted']:>6} accepted {row['lost']:>5} lost"
        f" {row['conflicts']:>6.1%} conflicts {row['statements']:>6.2f} statements"
        f"   p50 {row['p50_ms']:>8.2f}  p99 {row['p99_ms']:>8.2f} ms   {row['goodput']:>6.1f}/s"
        f"   Jain {row['fairness']:.2f}"
    )


def verdict(report: dict[str, Any]) -> int:
    """Compare mutate with select_for_update, load by load; return 1 when something was lost or an aim was missed."""
    from benchmarks import strategies

    missed = 0
    for row in report["rows"]:
        missed += row["lost"] != 0 and row["strategy"] != strategies.NAIVE.name
    # When all write all the time, nobody's time counts from when it was due: shown, and without an aim.
    aimed = (one for one in report["rows"] if one["scenario"] != SATURATED)
    for row in (one for one in aimed if one["strategy"] == strategies.MUTATE.name):
        same = [
            one
            for one in report["rows"]
            if (one["scenario"], one["strategy"]) == (row["scenario"], strategies.LOCKED.name)
        ]
        p99 = [row["p99_ms"] / one["p99_ms"] for one in same]
        goodput = [row["goodput"] / one["goodput"] for one in same]
        misses = []
        if row["scenario"] in AIMED and min(p99) > P99_AIM:
            misses.append(f"p99 {min(p99):.2f} > {P99_AIM}")
        if max(goodput) < GOODPUT_AIM:
            misses.append(f"goodput {max(goodput):.2f} < {GOODPUT_AIM}")
        if row["conflicts"] < 0.05 and row["statements"] > STATEMENTS_AIM:
            misses.append(f"{row['statements']} statements > {STATEMENTS_AIM}")
        if row["fairness"] < FAIRNESS_AIM:
            misses.append(f"fairness {row['fairness']} < {FAIRNESS_AIM}")
        missed += bool(misses)
        shown = (
            f"p99 {min(p99):.2f}..{max(p99):.2f}, goodput {min(goodput):.2f}..{max(goodput):.2f} of select_for_update"
        )
        print(f"{row['scenario']}: mutate's {shown}; {', '.join(misses) or 'within its aims'}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

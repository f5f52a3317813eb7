"""What the work queue costs: ``python -m benchmarks.queue [--quick] [--json PATH] [loop|celery|size ...]``.

Three measurements, each against a baseline timed in the same run, in turn and in random order:

- ``loop``: ``runreconcilers`` in one thread, against the bare claim, read and finish statements in a loop;
- ``celery``: a reconcile that changes nothing, against a task that does nothing but those statements, on one worker;
- ``size``: the claim of a batch with 20 thousand and with a million items in the table, all of them due.

The database is the one of DATABASE_URL (a test database is created on it and dropped again), by default SQLite; the
broker is the one of CELERY_BROKER_URL, by default files.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

PARTS = ("loop", "celery", "size")
# The rate that must be reached, as a share of the baseline's; for the size, how much longer a claim may take.
AIMS = {"loop": 0.7, "celery": 0.8, "size": 1.15}
BATCH = 20
SIZES = (20_000, 1_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="less of everything: to see that it runs, not to quote")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {unknown.pop()!r}: choose from {', '.join(PARTS)}")

    with tempfile.TemporaryDirectory() as folder, database(Path(folder)):
        report: dict[str, Any] = {"database": _described(), "load": round(os.getloadavg()[0], 1)}
        measures: dict[str, Callable[[bool, Path], dict[str, Any]]] = {"loop": loop, "celery": celery, "size": size}
        for part in options.parts or PARTS:
            report[part] = measures[part](options.quick, Path(folder))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return show(report)


@contextmanager
def database(folder: Path) -> Iterator[None]:
    """Set Django up, and have a database of the benchmark's own for the length of the block."""
    os.environ.setdefault("OCC_TEST_DATABASES", "{}")
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.worker_settings"
    os.environ["OCC_RUN_DIR"] = str(folder)
    os.environ["OCC_QUEUE"] = f"benchmark-{os.getpid()}"
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    # A name of its own, since benchmarks may run beside each other; a file, since the worker shares it.
    name = str(folder / "queue.sqlite3") if connection.vendor == "sqlite" else f"test_occ_queue_{os.getpid()}"
    connection.settings_dict["TEST"]["NAME"] = name
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        connection.creation.destroy_test_db("", verbosity=0)


def _described() -> str:
    from django.db import connection

    return f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}"


def loop(quick: bool, folder: Path) -> dict[str, Any]:
    """Time batches of runs by ``runreconcilers`` and of bare statements."""
    from benchmarks.measure import CONTROL, compare, control_holds
    from benchmarks.workload.statements import bare_run
    from reconcilers import registry
    from reconcilers.management.runner import Runner

    rounds, warm_up = (20, 2) if quick else (60, 5)
    keys = _rows(BATCH * (rounds + warm_up + 1))
    _make_due(["Idle", "Bare", "Bare again"], keys)
    runner = Runner([registry.get("Idle")], ["default"], stop=threading.Event(), batch=BATCH)

    def bare(name: str) -> Callable[[], None]:
        left = iter(keys)

        def run() -> None:
            for _ in range(BATCH):
                assert bare_run(name, next(left))  # noqa: S101

        return run

    def reconciled() -> None:
        until = runner.runs + BATCH
        while runner.runs < until:  # a batch that takes too long is given back in part
            runner.work_once()

    variants = {"bare": bare("Bare"), CONTROL: bare("Bare again"), "runreconcilers": reconciled}
    ratios = compare(variants, baseline="bare", rounds=rounds, warm_up=warm_up)
    return {"usable": control_holds(ratios), "ratios": [ratio.as_dict() for ratio in ratios]}


def celery(quick: bool, folder: Path) -> dict[str, Any]:
    """Time chunks of messages on a worker with one process."""
    from benchmarks.measure import CONTROL, compare, control_holds
    from benchmarks.workload.tasks import bare
    from reconcilers.tasks import run

    size, rounds = (40, 2) if quick else (60, 10)
    keys = _rows(size)
    done = folder / "done"
    done.touch()
    with _worker(folder, done):

        def chunk(task: Any, name: str) -> Callable[[], None]:
            def work() -> None:
                _make_due([name], keys)
                before = done.stat().st_size
                for key in keys:
                    task.delay(name, key, "default")
                while done.stat().st_size < before + size:
                    time.sleep(0.001)

            return work

        variants = {"bare": chunk(bare, "Bare"), CONTROL: chunk(bare, "Bare"), "reconcile": chunk(run, "Idle")}
        ratios = compare(variants, baseline="bare", rounds=rounds, warm_up=1)
    return {"usable": control_holds(ratios), "ratios": [ratio.as_dict() for ratio in ratios]}


@contextmanager
def _worker(folder: Path, done: Path) -> Iterator[None]:
    from benchmarks.workload.tasks import DONE
    from tests.kit.processes import Processes
    from tests.kit.workers import databases_environment

    names = databases_environment(folder)["OCC_TEST_DATABASES"]
    processes = Processes(folder, {"OCC_TEST_DATABASES": names, DONE: str(done)})
    try:
        worker = processes.python(
            *("-m", "celery", "-A", "project", "worker", "--concurrency=1", "--loglevel=WARNING"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        )
        worker.wait_for_output("celery@", timeout=60)
        yield
        worker.terminate(timeout=60)
    finally:
        with redirect_stdout(io.StringIO()):  # it shows the last lines of each log
            processes.close()
        _delete_queue()


def _delete_queue() -> None:
    from project.celery import app

    with app.connection_for_write() as connection:
        queue = app.amqp.queues[app.conf.task_default_queue].bind(connection.default_channel)
        queue.declare()  # some transports delete only what they know
        queue.delete()


def size(quick: bool, folder: Path) -> dict[str, Any]:
    """Time the claim of a batch beside the read of one row by its key, with few and with many items in the table.

    The two sizes are some minutes apart, in which a machine changes; the read, which leaves nothing behind, tells by
    how much. Its control is the noise.
    """
    from django.conf import settings

    from benchmarks.measure import CONTROL, compare, control_holds
    from reconcilers import registry
    from reconcilers.models import WorkItem
    from reconcilers.workqueue import steps
    from tests.library.models import PlainCounter

    settings.RECONCILERS["LEASE_SECONDS"] = 3600  # what is claimed here is never finished, and must not come back
    WorkItem.objects.all().delete()
    idle = registry.get("Idle")
    row = PlainCounter.objects.create()

    def read() -> None:
        PlainCounter.objects.get(pk=row.pk)

    def claim() -> None:
        (waiting,) = steps.waiting([idle], using="default")
        assert len(steps.claim_many(waiting, using="default", limit=BATCH)) == BATCH  # noqa: S101

    found: dict[str, Any] = {}
    usable = True
    sizes = tuple(size // 20 for size in SIZES) if quick else SIZES
    rounds = 20 if quick else 300
    for items in sizes:
        _fill(items)
        ratios = compare({"read": read, CONTROL: read, "claim": claim}, baseline="read", rounds=rounds)
        usable &= control_holds(ratios)
        found[str(items)] = ratios[-1].as_dict()
    few, many = (found[str(items)]["ratio"] for items in sizes)
    return {"usable": usable, "sizes": found, "growth": round(many / few, 3)}


def _rows(rows: int) -> list[str]:
    from tests.library.models import Counter

    Counter._base_manager.all().delete()
    return [str(counter.pk) for counter in Counter.objects.bulk_create(Counter() for _ in range(rows))]


def _make_due(names: list[str], keys: list[str]) -> None:
    from reconcilers.workqueue import requests

    for name in names:
        requests.request([(name, key) for key in keys], using="default", nudge=False)


def _fill(items: int) -> None:
    """Fill the table up to so many due items of Idle, with one statement."""
    from django.db import connection

    from reconcilers.models import WorkItem
    from reconcilers.workqueue import sql

    d = sql.dialect_of(connection)
    there = WorkItem.objects.count()
    digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
    places = range(6)
    number = " + ".join(f"p{n}.d * {10**n}" for n in places)
    tables = " CROSS JOIN ".join(f"({digits}) p{n}" for n in places)
    text = f"CAST({number} AS CHAR(7))" if connection.vendor == "mysql" else f"CAST({number} AS varchar)"
    sql.execute(
        "default",
        f"""
        INSERT INTO {d.table} (reconciler, {d.key}, request_token, cause, due_at, attempts, lease_token, lease_owner,
            last_error, created_at)
        SELECT 'Idle', {text}, 1, 0, {d.now}, 0, 0, '', '', {d.now} FROM {tables}
        WHERE {number} >= %(there)s AND {number} < %(items)s
        """,  # noqa: S608
        {"now": d.seconds(-60), "there": there, "items": items},
    )
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"VACUUM ANALYZE {d.table}")


def show(report: dict[str, Any]) -> int:
    """Print the figures beside their aims; return 1 when a usable one misses its aim."""
    print(f"{report['database']}, load of the machine {report['load']}")
    missed = 0
    for part in ("loop", "celery"):
        if part not in report:
            continue
        usable, ratio = report[part]["usable"], report[part]["ratios"][-1]
        control = report[part]["ratios"][0]
        missed += usable and 1 / ratio["low"] < AIMS[part]
        print(
            f"  {part}: {ratio['variant']} at {1 / ratio['ratio']:.2f} of the rate of the bare statements "
            f"({1 / ratio['high']:.2f} to {1 / ratio['low']:.2f}; aim {AIMS[part]}; control {control['ratio']:.2f}"
            f"{'' if usable else ': it strayed from 1.00, so this says nothing'})"
        )
    if "size" in report:
        found = report["size"]
        missed += found["usable"] and found["growth"] > AIMS["size"]
        for items, ratio in found["sizes"].items():
            print(
                f"  size: claim of {BATCH} at {int(items):,} items: {ratio['ratio']:.1f} times a read of one row "
                f"({ratio['low']:.1f} to {ratio['high']:.1f}), {ratio['microseconds']:.0f} microseconds"
            )
        print(
            f"  size: the larger table takes {found['growth']:.2f} of the smaller one's time (aim {AIMS['size']}"
            f"{'' if found['usable'] else '; a control strayed from 1.00, so this says nothing'})"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

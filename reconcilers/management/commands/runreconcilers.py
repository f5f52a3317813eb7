"""``manage.py runreconcilers``: the whole machinery without a broker."""

from __future__ import annotations

import signal
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections

from reconcilers.management import arguments
from reconcilers.management.runner import Runner, Stop


class Command(BaseCommand):
    """Works the queue until it is told to stop (SIGTERM, SIGINT); runs under way are finished first."""

    help = "Run reconcilers without Celery: poll for what is due, and sweep. Start as many of these as you like."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("reconcilers", nargs="*", metavar="NAME", help="only these reconcilers")
        parser.add_argument("--database", action="append", metavar="ALIAS", help="only this database; repeatable")
        parser.add_argument("--threads", type=int, default=1, help="how many runs at once (default 1)")
        parser.add_argument("--batch", type=int, default=20, help="how many keys to claim at a time (default 20)")
        how_long = parser.add_mutually_exclusive_group()
        how_long.add_argument("--once", action="store_true", help="one pass over what is due, then end")
        how_long.add_argument("--burst", action="store_true", help="until nothing is due, then end")

    def handle(self, *args: Any, **options: Any) -> None:
        found = arguments.reconcilers_named(options["reconcilers"])
        databases = arguments.databases_named(options["database"])
        stop = Stop()
        runners = [
            Runner(found, databases, stop=stop, batch=max(1, options["batch"]))
            for _ in range(max(1, options["threads"]))
        ]
        if options["verbosity"] > 0:
            names = ", ".join(reconciler.name for reconciler in found)
            self.stdout.write(f"Reconciling {names} on {', '.join(databases)}.")
            self.stdout.flush()
        with _told_by_signals(stop):
            self._run_all(runners, options)
        if options["verbosity"] > 0:
            self.stdout.write(f"{sum(runner.runs for runner in runners)} runs.")

    def _run_all(self, runners: list[Runner], options: dict[str, Any]) -> None:
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=_work, args=(runner, options, failures), name=f"reconcilers-{n}")
            for n, runner in enumerate(runners[1:], start=1)
        ]
        for thread in threads:
            thread.start()
        try:
            _work_here(runners[0], options)
        finally:
            if not (options["once"] or options["burst"]):
                runners[0].stop.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]


def _work_here(runner: Runner, options: dict[str, Any]) -> None:
    if options["once"]:
        runner.sweep_if_time()
        runner.work_once()
    elif options["burst"]:
        runner.work_until_idle()
    else:
        runner.work()


def _work(runner: Runner, options: dict[str, Any], failures: list[BaseException]) -> None:
    try:
        _work_here(runner, options)
    except BaseException as error:
        failures.append(error)
        runner.stop.set()
    finally:
        connections.close_all()


@contextmanager
def _told_by_signals(stop: Stop) -> Iterator[None]:
    """Set ``stop`` at the first SIGTERM or SIGINT; a second SIGINT interrupts the run under way."""

    def hear(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():  # Python allows handlers there alone
        yield
        return
    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

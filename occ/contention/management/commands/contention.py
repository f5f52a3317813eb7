"""``manage.py contention``: how often writes are refused, and what to do about it."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from occ.conf import occ_settings
from occ.contention import planning
from occ.contention.report import WINDOWS, ModelReport, Window, report

COLUMNS = ("model", "writes", "conflicts", "rate", "attempts per success", "worst", "at")


class Command(BaseCommand):
    """Reports on contention; ``--check`` turns the report into an exit status, ``plan`` predicts it."""

    help = "Show writes and conflicts per model and what to do above the line, or plan: predict the conflict rate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--window", choices=WINDOWS, default="1h", help="how far to look back (default 1h)")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--writers", action="store_true", help="also the part of each reconciler and manager")
        parser.add_argument(
            "--watch", type=float, nargs="?", const=5.0, metavar="SECONDS", help="print again every 5 seconds or so"
        )
        parser.add_argument(
            "--check", action="store_true", help="exit with status 1 if a model was above the line in the last 5 min"
        )
        actions = parser.add_subparsers(dest="action", title="actions")
        plan = actions.add_parser("plan", help="predict conflicts, retries and statements from a simulation")
        planning.add_arguments(plan)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "plan":
            self.stdout.write(planning.run(options))
            return
        window = WINDOWS[options["window"]]
        if options["watch"] is None:
            self._check(self._show(window, options), options)
            return
        if not options["watch"] > 0:
            raise CommandError("--watch takes a number of seconds above 0.")
        try:
            while True:
                self._show(window, options)
                time.sleep(options["watch"])
                self.stdout.write("")
        except KeyboardInterrupt:
            return

    def _show(self, window: Window, options: dict[str, Any]) -> list[ModelReport]:
        try:
            reports = report(window)
        except (OperationalError, ProgrammingError) as error:
            reason = str(error).partition("\n")[0]
            raise CommandError(f"The counts cannot be read ({reason}). Is occ.contention migrated?") from error
        if options["json"]:
            found = {
                "window": window.seconds,
                "line": occ_settings.CONFLICT_WARN,
                "models": [each.as_dict() for each in reports],
            }
            self.stdout.write(json.dumps(found, indent=2))
        else:
            for line in self._lines(window, reports, with_writers=options["writers"]):
                self.stdout.write(line)
        return reports

    def _check(self, reports: list[ModelReport], options: dict[str, Any]) -> None:
        above = [each for each in reports if each.above_line]
        if options["check"] and above:
            names = ", ".join(each.model for each in above)
            raise CommandError(f"Above the line of {_percent(occ_settings.CONFLICT_WARN)}: {names}", returncode=1)

    def _lines(self, window: Window, reports: list[ModelReport], *, with_writers: bool) -> Iterator[str]:
        if not reports:
            yield f"No writes were counted in the last {window.title}."
            return
        rows: list[tuple[str, ...]] = [COLUMNS]
        for each in reports:
            rows.append(_row(each.model, each, window))
            if with_writers:
                rows += [
                    (f"  {writer.name}", f"{writer.writes:,}", f"{writer.conflicts:,}", "", "", "", "")
                    for writer in each.writers
                ]
        widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join(cells).rstrip()
        line = _percent(occ_settings.CONFLICT_WARN)
        yield f"The last {window.title}; worst {window.slot // 60} minutes; line at {line}."
        for each in reports:
            if each.advice is not None:
                since = "is above the line" if each.above_line else "was above the line"
                yield self.style.WARNING(f"{each.model} {since}. {each.advice.text}")


def _row(name: str, each: ModelReport, window: Window) -> tuple[str, ...]:
    attempts = "" if each.attempts_per_success is None else f"{each.attempts_per_success:.2f}"
    worst = at = ""
    if each.worst is not None and each.worst.rate is not None:
        worst = _percent(each.worst.rate)
        at = time.strftime("%H:%M" if window.seconds <= 24 * 3600 else "%a %H:%M", time.localtime(each.worst.start))
    return name, f"{each.writes:,}", f"{each.conflicts:,}", _percent(each.rate), attempts, worst, at


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

"""``manage.py workqueue``: what the queue looks like, and whether somebody should look after it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reconcilers import registry
from reconcilers.management import arguments
from reconcilers.models import WorkItem
from reconcilers.workqueue import operate, reports

COLUMNS = ("reconciler", "due", "running", "failing", "waiting", "idle", "parked", "oldest due")


class Command(BaseCommand):
    """Tells the state of the queue; ``--check`` turns it into an exit status for monitoring."""

    help = "Show the work queue, check it for alarms, or requeue, move and remove items."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", action="append", metavar="ALIAS", help="only this database; repeatable")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--check", action="store_true", help="exit with status 1 if there is an alarm")
        parser.add_argument("--oldest-due", type=float, default=60, metavar="SECONDS", help="alarm above (default 60)")
        parser.add_argument("--parked", type=int, default=0, metavar="N", help="alarm above (default 0)")
        actions = parser.add_subparsers(dest="action", title="actions")
        rename = actions.add_parser("rename", help="move the items of a reconciler that has a new name")
        rename.add_argument("old")
        rename.add_argument("new")
        requeue = actions.add_parser("requeue", help="run parked and failing items now, their attempts forgotten")
        requeue.add_argument("name", help="the reconciler")
        requeue.add_argument("keys", nargs="*", help="primary keys; by default all that are parked")
        remove = actions.add_parser("remove", help="drop the items of a reconciler that is no more, or some keys")
        remove.add_argument("name", help="the reconciler")
        remove.add_argument("keys", nargs="*", help="keys; by default all, if no reconciler has that name")

    def handle(self, *args: Any, **options: Any) -> None:
        databases = arguments.databases_named(options["database"])
        if options["action"] == "rename":
            self._rename(options["old"], options["new"], databases)
        elif options["action"] == "requeue":
            self._requeue(options["name"], options["keys"], databases)
        elif options["action"] == "remove":
            self._remove(options["name"], options["keys"], databases)
        else:
            self._show(databases, options)

    def _show(self, databases: list[str], options: dict[str, Any]) -> None:
        counts = [each for using in databases for each in reports.counts(using)]
        alarms = [
            alarm
            for using in databases
            for alarm in reports.alarms(using, oldest_due=options["oldest_due"], parked=options["parked"])
        ]
        if options["json"]:
            sweeps = {using: reports.last_sweep(using) for using in databases}
            found = {"reconcilers": [each.as_dict() for each in counts], "last_sweep": sweeps, "alarms": alarms}
            self.stdout.write(json.dumps(found, indent=2))
        else:
            self._print(counts, databases)
            for alarm in alarms:
                self.stdout.write(self.style.WARNING(alarm))
        if options["check"] and alarms:
            raise CommandError(f"{len(alarms)} alarm{'s' if len(alarms) > 1 else ''}: {alarms[0]}", returncode=1)

    def _print(self, counts: list[reports.Counts], databases: list[str]) -> None:
        rows: list[tuple[str, ...]] = [COLUMNS]
        for each in counts:
            name = each.reconciler if len(databases) == 1 else f"{each.reconciler} ({each.database})"
            oldest = "" if each.oldest_due is None else f"{each.oldest_due:.0f} s"
            states = (each.due, each.running, each.failing, each.waiting, each.idle, each.parked)
            rows.append((name, *map(str, states), oldest))
        widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
        for row in rows:
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            self.stdout.write("  ".join(cells).rstrip())
        for using in databases:
            swept = reports.last_sweep(using)
            where = "" if len(databases) == 1 else f" of {using}"
            self.stdout.write(f"Last sweep{where}: {'never' if swept is None else f'{swept:.1f} s ago'}.")

    def _rename(self, old: str, new: str, databases: list[str]) -> None:
        arguments.reconcilers_named([new])
        for using in databases:
            _require_items(old, using)
            moved = operate.rename(old, new, using=using)
            self.stdout.write(f"Moved {moved} items of {old} to {new} on {using}.")

    def _requeue(self, name: str, keys: list[str], databases: list[str]) -> None:
        (reconciler,) = arguments.reconcilers_named([name])
        wanted = {arguments.key_named(reconciler, key) for key in keys}
        missing = set(wanted)
        for using in databases:
            items = WorkItem.objects.using(using).filter(reconciler=reconciler.name)
            items = items.filter(key__in=wanted) if keys else items.filter(parked_at__isnull=False)
            missing.difference_update(items.values_list("key", flat=True))
            count = operate.requeue(items.values_list("id", flat=True), using=using, reset=True)
            self.stdout.write(f"Requeued {count} item{'' if count == 1 else 's'} of {name} on {using}.")
        if missing:
            raise CommandError(
                f"{name} has no items of these keys on {', '.join(databases)}: {', '.join(sorted(missing))}. The next "
                "scan makes one for each row that is there."
            )

    def _remove(self, name: str, keys: list[str], databases: list[str]) -> None:
        if not keys and name in {reconciler.name for reconciler in registry.all_reconcilers()}:
            raise CommandError(
                f"{name} is registered, and the next scan would make its items again: give the keys to remove, or take "
                "its @register away first."
            )
        for using in databases:
            _require_items(name, using)
            count = operate.remove(name, keys or None, using=using)
            self.stdout.write(f"Removed {count} items of {name} on {using}.")


def _require_items(name: str, using: str) -> None:
    if WorkItem.objects.using(using).filter(reconciler=name).exists():
        return
    names = WorkItem.objects.using(using).order_by("reconciler").values_list("reconciler", flat=True).distinct()
    raise CommandError(f"Database {using!r} has no items of {name!r}; it has items of: {', '.join(names) or 'none'}.")

"""``manage.py reconcile NAME KEY``: one key, now, in the foreground."""

from __future__ import annotations

import copy
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import models, router, transaction

from occ.fields import get_version, version_field
from occ.snapshots import Snapshot
from reconcilers import controller
from reconcilers.controller import Outcome
from reconcilers.management import arguments
from reconcilers.models import WorkItem
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import operate, steps


class Command(BaseCommand):
    """Runs one reconciler on one row and tells what it read and what it changed."""

    help = "Run one reconciler on one row now, whatever its backoff, and tell what it changes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("reconciler", metavar="NAME")
        parser.add_argument("key", metavar="KEY", help="the primary key of the row")
        parser.add_argument("--dry-run", action="store_true", help="tell what it would write, and write nothing")
        parser.add_argument("--database", metavar="ALIAS", help="by default the one that the model is written to")

    def handle(self, *args: Any, **options: Any) -> None:
        (reconciler,) = arguments.reconcilers_named([options["reconciler"]])
        (using,) = arguments.databases_named([options["database"] or router.db_for_write(reconciler.model)])
        key = arguments.key_named(reconciler, options["key"])
        row = self._read(reconciler, key, using)
        if options["dry_run"]:
            self._try(reconciler, row, using)
        else:
            self._run(reconciler, row, key, using)

    def _read(self, reconciler: Reconciler, key: str, using: str) -> models.Model:
        found = reconciler.model._base_manager.using(using).filter(pk=reconciler.pk_for(key)).first()
        if found is None:
            label = reconciler.model._meta.label
            raise CommandError(
                f"Database {using!r} has no {label} with the key {key}. Give the primary key of a row; what is left of "
                "one that was deleted is cleaned up by itself."
            )
        self.stdout.write(f"Read {reconciler.model._meta.label} {key} at version {get_version(found)}.")
        return found

    def _try(self, reconciler: Reconciler, row: models.Model, using: str) -> None:
        if not reconciler.atomic:
            raise CommandError(
                f"{reconciler.name} has atomic = False: it may act outside the database, which a dry run cannot undo."
            )
        snapshot = Snapshot.take(row, using)
        before = _values(row)
        with transaction.atomic(using=using):
            result = reconciler.reconcile(row)
            changed = snapshot.changed(row)
            transaction.set_rollback(True, using=using)
        self._tell(before, row, changed, "It would write")
        self.stdout.write(f"It returned {result!r}.")

    def _run(self, reconciler: Reconciler, row: models.Model, key: str, using: str) -> None:
        operate.request_now(reconciler, key, using=using)
        claim = steps.claim(reconciler, key, using=using)
        if claim is None:
            item = WorkItem.objects.using(using).get(reconciler=reconciler.name, key=key)
            raise CommandError(
                f"{item.lease_owner or 'Another worker'} is running {reconciler.name} {key}, until {item.lease_until} "
                "at the latest. It runs once more after that; nothing is left to do here."
            )
        before, version = _values(row), get_version(row)
        outcome = controller.run(reconciler, claim)
        after = reconciler.model._base_manager.using(using).filter(pk=row.pk).first()
        if after is not None:
            changed = [name for name, value in _values(after).items() if before.get(name) != value]
            self._tell(before, after, changed if get_version(after) != version else [], "Wrote")
        if outcome not in (Outcome.DONE, Outcome.GONE):
            item = WorkItem.objects.using(using).get(reconciler=reconciler.name, key=key)
            raise CommandError(f"{reconciler.name} {key}: {outcome}. {item.last_error}")
        self.stdout.write(f"{reconciler.name} {key}: {outcome}.")

    def _tell(self, before: dict[str, Any], row: models.Model, changed: list[str], verb: str) -> None:
        if not changed:
            self.stdout.write("Nothing changed, nothing is written.")
            return
        self.stdout.write(f"{verb}:")
        for name in changed:
            self.stdout.write(f"  {name}: {before.get(name)!r} -> {_values(row)[name]!r}")


def _values(row: models.Model) -> dict[str, Any]:
    version = version_field(row)
    return {
        field.name: copy.deepcopy(getattr(row, field.attname))
        for field in row._meta.concrete_fields
        if field is not version
    }

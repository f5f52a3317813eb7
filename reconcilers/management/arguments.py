"""What the commands have in common: naming databases and reconcilers, and saying plainly what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError, connections

from reconcilers import registry
from reconcilers.exceptions import InvalidKey, UnknownReconciler
from reconcilers.models import WorkItem
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import sweeper


def reconcilers_named(names: Iterable[str]) -> list[Reconciler]:
    """Return the reconcilers of these names, or all of them when there are no names; ``CommandError`` for others."""
    try:
        found = [registry.get(name) for name in names] or registry.all_reconcilers()
    except UnknownReconciler as error:
        raise CommandError(str(error)) from None
    if not found:
        raise CommandError(
            "No reconciler is registered: decorate one with @register in an installed app's reconcilers.py."
        )
    return found


def key_named(reconciler: Reconciler, text: str) -> str:
    """Return the key that a person wrote as ``text``; ``CommandError`` if it is none."""
    try:
        return reconciler.key_for(text)
    except InvalidKey as error:
        raise CommandError(str(error)) from None


def databases_named(aliases: Iterable[str] | None) -> list[str]:
    """Return these database aliases, or those that hold work items; ``CommandError`` where there is no queue."""
    found = list(aliases or sweeper.databases())
    for alias in found:
        if alias not in connections:
            raise CommandError(f"No database has the alias {alias!r}; DATABASES has: {', '.join(connections)}.")
        try:
            WorkItem.objects.using(alias).exists()
        except OperationalError as error:
            if _table_missing(alias):
                raise CommandError(_MIGRATE.format(alias)) from None
            raise CommandError(
                f"Database {alias!r} does not answer ({_first_line(error)}). Start it, or correct DATABASES."
            ) from None
        except ProgrammingError:
            raise CommandError(_MIGRATE.format(alias)) from None
    return found


_MIGRATE = "Database {0!r} has no table for work items: run 'manage.py migrate --database {0}' first."


def _table_missing(alias: str) -> bool:
    try:
        with connections[alias].cursor() as cursor:
            return WorkItem._meta.db_table not in connections[alias].introspection.table_names(cursor)
    except OperationalError:
        return False


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

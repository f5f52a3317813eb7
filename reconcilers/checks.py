"""System checks: what would lose work or leave workers asleep is said when the process starts."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.db import router

from reconcilers import registry
from reconcilers.conf import reconciler_settings
from reconcilers.models import WorkItem


def connect() -> None:
    """Register the checks."""
    checks.register(check_settings)
    checks.register(check_work_items_beside_models)
    checks.register(check_watched_models)


def check_settings(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """What is wrong with ``RECONCILERS`` is said before it is used."""
    return [
        *(
            checks.Error(problem, hint="See the page about settings.", id="reconcilers.E004")
            for problem in reconciler_settings.wrong()
        ),
        *(
            checks.Warning(
                f"RECONCILERS[{name!r}] is read by nothing.",
                hint=f"Correct or remove it; there are: {', '.join(reconciler_settings.names())}.",
                id="reconcilers.W005",
            )
            for name in reconciler_settings.unknown()
        ),
    ]


def check_work_items_beside_models(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Every database that a reconciler's model is written to must hold the queue, so that both commit together."""
    messages: list[checks.CheckMessage] = []
    for reconciler in registry.all_reconcilers():
        alias = router.db_for_write(reconciler.model)
        if not router.allow_migrate_model(alias, WorkItem):
            messages.append(
                checks.Error(
                    f"{reconciler.name} writes {reconciler.model._meta.label} to database {alias!r}, where the "
                    "database router does not allow the work items of reconcilers.",
                    hint=f"Let allow_migrate({alias!r}, 'reconcilers') return True, so that a change and its work "
                    "item commit together.",
                    obj=type(reconciler),
                    id="reconcilers.E001",
                )
            )
    return messages


def check_watched_models(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """A watched model should commit its changes together with the requests that they make."""
    return [
        checks.Warning(
            f"{reconciler.name} watches {watched._meta.label}, whose save() outside of a transaction commits before "
            "the request to reconcile is made: a crash in between loses the request until the next resync.",
            hint=f"Derive {watched.__name__} from occ.models.OptimisticLockModel, or write it inside "
            "transaction.atomic() and silence this check.",
            obj=type(reconciler),
            id="reconcilers.W003",
        )
        for reconciler in registry.all_reconcilers()
        for watched in reconciler.watches
        if not hasattr(watched, "_occ_atomic_writes")
    ]

"""System checks that look further than one model class: at the databases, the migrations and other apps' settings.

The ``database`` ones run with ``check --database`` and, before it does anything, with ``migrate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import NotSupportedError, connections, models, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader

from occ.conf import occ_settings
from occ.constraints import VersionTrigger, version_triggers
from occ.operations import added_by_operations
from occ.triggers import find_fault

Declared = tuple[type[models.Model], VersionTrigger]


def check_version_triggers(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Report version triggers that are declared and that a database lacks.

    A warning, and none for apps with migrations to come: it must not be in the way of the ``migrate`` that creates
    the trigger.
    """
    messages: list[CheckMessage] = []
    declared = list(_declared(app_configs)) if databases else []
    for alias in databases if databases and declared else ():
        connection = connections[alias]
        waiting = _waiting_for_migrations(connection)
        for model, trigger in declared:
            if model._meta.app_label not in waiting and router.allow_migrate_model(alias, model):
                messages += _check_trigger(model, trigger, connection)
    return messages


def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report what is wrong with ``OCC`` before it is used."""
    return [
        *(Error(problem, hint="See the page about settings.", id="occ.E060") for problem in occ_settings.wrong()),
        *(
            Warning(
                f"OCC[{name!r}] is read by nothing.",
                hint=f"Correct or remove it; there are: {', '.join(occ_settings.names())}.",
                id="occ.W060",
            )
            for name in occ_settings.unknown()
        ),
    ]


def _check_trigger(
    model: type[models.Model], trigger: VersionTrigger, connection: BaseDatabaseWrapper
) -> Iterator[CheckMessage]:
    try:
        fault = find_fault(trigger.trigger(model, connection), connection)
    except NotSupportedError as error:
        yield Warning(str(error), obj=model, id="occ.W021")
        return
    if fault:
        yield Warning(
            f"The version trigger {trigger.name!r} of {model._meta.label} {fault} in the database "
            f"{connection.alias!r}: writes by others than Django are not counted.",
            hint=(
                "Make and run its migration (makemigrations, migrate). If that has been done, create the trigger again "
                f"by a migration with occ.operations.AddVersionTrigger({model._meta.object_name!r})."
            ),
            obj=model,
            id="occ.W020",
        )


def _declared(app_configs: Iterable[AppConfig] | None) -> Iterator[Declared]:
    labels = {config.label for config in (apps.get_app_configs() if app_configs is None else app_configs)}
    for model in apps.get_models():
        if model._meta.app_label in labels and not model._meta.proxy:
            for trigger in version_triggers(model):
                yield model, trigger
    for key, added in added_by_operations().items():
        if key[0] not in labels:
            continue
        for trigger in added:
            try:
                yield apps.get_model(*key), trigger
            except LookupError:
                continue  # the model is not in the code any more


def _waiting_for_migrations(connection: BaseDatabaseWrapper) -> set[str]:
    loader = MigrationLoader(connection)
    return {label for label, name in loader.graph.nodes if (label, name) not in loader.applied_migrations}


def check_cors_headers(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Report that django-cors-headers hides ETags from browsers, or keeps them from sending If-Match."""
    if not (apps.is_installed("corsheaders") and apps.is_installed("rest_framework")):
        return []
    exposed = _lower(getattr(settings, "CORS_EXPOSE_HEADERS", ()))
    allowed = _lower(getattr(settings, "CORS_ALLOW_HEADERS", ()))
    messages: list[CheckMessage] = []
    if "etag" not in exposed:
        messages.append(
            Warning(
                "Scripts of other origins cannot read the ETag of an answer, so they have no version to send back.",
                hint='Add "etag" to CORS_EXPOSE_HEADERS.',
                id="occ.W030",
            )
        )
    if missing := [name for name in ("if-match", "if-none-match") if name not in allowed and "*" not in allowed]:
        names = ", ".join(f'"{name}"' for name in missing)
        messages.append(
            Warning(
                f"Scripts of other origins may not send {names}, so their guarded writes fail in the browser.",
                hint=f"Set CORS_ALLOW_HEADERS to (*corsheaders.defaults.default_headers, {names}).",
                id="occ.W031",
            )
        )
    return messages


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}

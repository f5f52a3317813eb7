"""Checks of a model's version trigger: declared wrongly, or needed and neither declared nor added by a migration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks
from django.db import connections, models, router

from occ.constraints import missing_version, version_triggers
from occ.operations import triggers_of_operations


def check_triggers(model: type[models.Model]) -> Iterator[checks.CheckMessage]:
    """Yield what an optimistic-locked model gets wrong about its trigger, or lacks one for."""
    version = getattr(model, "_occ_version_field", None)
    if version_triggers(model) and version not in model._meta.local_concrete_fields:
        root = "its model" if version is None else version.model._meta.object_name
        yield checks.Error(
            missing_version(model),
            hint=f"Declare the trigger on {root}, whose table has the version column.",
            obj=model,
            id="occ.E020",
        )
    for field in model._meta.local_fields:
        if _written_by_database(field) and field.name not in getattr(model, "occ_unguarded_fields", ()):
            yield from _check_database_writes(model, field)


def _check_database_writes(model: type[models.Model], field: models.Field[Any, Any]) -> Iterator[checks.CheckMessage]:
    """Yield an error where the database changes rows by ON DELETE and nothing moves their version."""
    action = field.remote_field.on_delete  # type: ignore[union-attr]
    why = hint = ""
    if any(connections[alias].vendor == "mysql" and router.allow_migrate_model(alias, model) for alias in connections):
        why = "MySQL and MariaDB run no trigger for that"
    elif getattr(model, "_occ_version_field", None) not in model._meta.local_concrete_fields:
        why = "the version is in another table"
    elif not version_triggers(model) and not triggers_of_operations(model):
        why = "no trigger counts that"
        hint = (
            "Add VersionTrigger() (from occ.constraints) to Meta.constraints or AddVersionTrigger (from "
            "occ.operations) to a migration, or use "
        )
    if why:
        yield checks.Error(
            f"on_delete={action} of {model._meta.object_name}.{field.name} has the database change rows without "
            f"moving their version: {why}.",
            hint=f"{hint or 'Use '}{str(action).removeprefix('DB_')}, by which Django writes the rows.",
            obj=field,
            id="occ.E021",
        )


def _written_by_database(field: models.Field[Any, Any]) -> bool:
    """Tell whether the database itself writes the column when the row it points to goes (Django 6.1)."""
    on_delete = getattr(field.remote_field, "on_delete", None)
    return on_delete is not None and on_delete in (
        getattr(models, "DB_SET_NULL", None),
        getattr(models, "DB_SET_DEFAULT", None),
    )

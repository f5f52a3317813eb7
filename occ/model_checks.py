"""Checks that every optimistic-locked model runs through ``Model.check()``, with or without occ in INSTALLED_APPS."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import FieldDoesNotExist
from django.db import models

from occ.fields import FIRST, VersionField, version_field
from occ.querysets import OptimisticLockManager, OptimisticLockQuerySet
from occ.trigger_checks import check_triggers


def check_model(model: type[models.Model]) -> Iterator[CheckMessage]:
    """Yield what would let a write of ``model`` pass unguarded, each with the remedy."""
    if model._meta.proxy or model._meta.swapped:
        return
    yield from _check_field(model)
    yield from _check_managers(model)
    yield from _check_order(model)
    yield from check_triggers(model)
    yield from _check_repeating_keys(model)
    yield from _check_on_delete(model)


def _check_field(model: type[models.Model]) -> Iterator[CheckMessage]:
    fields = [field for field in model._meta.get_fields() if isinstance(field, VersionField)]
    if not fields:
        yield Error(
            f"{model._meta.object_name} is optimistic-locked but has no version field.",
            hint="Add one: version = VersionField() (from occ.fields), under any name.",
            obj=model,
            id="occ.E001",
        )
    elif len(fields) > 1:
        yield Error(
            f"{model._meta.object_name} has {len(fields)} version fields: {', '.join(f.name for f in fields)}.",
            hint="Keep one. To use another name than the inherited one, set version = None in the model.",
            obj=model,
            id="occ.E003",
        )
    elif fields[0].model is not _root(model):
        yield Error(
            f"{model._meta.object_name} is optimistic-locked but its parent {_root(model)._meta.object_name} is not.",
            hint=f"Make {_root(model)._meta.object_name} an OptimisticLockModel: one version guards all its tables.",
            obj=model,
            id="occ.E004",
        )


def _root(model: type[models.Model]) -> type[models.Model]:
    parents = [parent for parent in model._meta.parents if not parent._meta.abstract]
    return _root(parents[0]) if parents else model


def _check_managers(model: type[models.Model]) -> Iterator[CheckMessage]:
    managers = [*model._meta.managers, model._meta.base_manager]
    for manager in {manager.name: manager for manager in managers}.values():
        queryset: type = getattr(manager, "_queryset_class", object)
        if not isinstance(manager, OptimisticLockManager) or not issubclass(queryset, OptimisticLockQuerySet):
            yield Error(
                f"The manager {manager.name!r} of {model._meta.object_name} writes without moving the version.",
                hint=(
                    f"Derive {type(manager).__name__} from occ.models.OptimisticLockManager, or build it with "
                    "OptimisticLockManager.from_queryset(); a queryset of yours derives from OptimisticLockQuerySet."
                ),
                obj=model,
                id="occ.E005",
            )


def _check_order(model: type[models.Model]) -> Iterator[CheckMessage]:
    """Find a class whose ``save_base`` or ``_do_update`` comes before ours and may not call it."""
    guarded = next(base for base in model.__mro__ if base.__dict__.get("_occ_guarded"))
    before = model.__mro__[: model.__mro__.index(guarded)]
    for base in before:
        for name in ("_do_update", "_save_table"):
            if name in base.__dict__:
                yield Error(
                    f"{base.__name__}.{name} replaces the guarded one of {model._meta.object_name}.",
                    hint=f"Put OptimisticLockModel before {base.__name__} in the bases, or remove the override.",
                    obj=model,
                    id="occ.E006",
                )


def _check_repeating_keys(model: type[models.Model]) -> Iterator[CheckMessage]:
    """Find keys that can come back after a deletion, and with them the versions of the deleted row."""
    field = version_field(model)
    if field is None or field.model is not model or _root(model) is not model or field.start != FIRST:
        return
    try:
        keys = model._meta.pk_fields
    except FieldDoesNotExist:  # a composite key of unknown fields, which Django's own check reports
        return
    if not any(isinstance(key, models.AutoField) or key.has_default() or key.has_db_default() for key in keys):
        names = ", ".join(key.name for key in keys)
        yield Warning(
            f"Rows of {model._meta.object_name} are keyed by {names}, which is chosen by the writer: a row that is "
            "deleted and created again would repeat its versions, and answer to what was read before.",
            hint="Start the versions from the clock: version = VersionField(start=occ.from_clock).",
            obj=model,
            id="occ.W002",
        )


def _check_on_delete(model: type[models.Model]) -> Iterator[CheckMessage]:
    """Find an ``on_delete`` of the application's own: what it has the collector write may pass by the version."""
    for field in model._meta.local_fields:
        on_delete = getattr(field.remote_field, "on_delete", None)
        if on_delete is None or type(on_delete).__module__ == "django.db.models.deletion":  # Django 6.1's DB_*
            continue
        if getattr(on_delete, "__module__", "") != "django.db.models.deletion" and not hasattr(
            on_delete, "lazy_sub_objs"
        ):
            yield Warning(
                f"The on_delete of {model._meta.object_name}.{field.name} is no function of Django's: if it writes "
                "rows, their versions may stay as they are.",
                hint=(
                    "Write through sub_objs.update(...), or give the function the attribute lazy_sub_objs = True so "
                    "that Django's collector does."
                ),
                obj=field,
                id="occ.W003",
            )

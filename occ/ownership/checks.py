"""Checks of models with field ownership, beside those of every optimistic-locked model."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error
from django.db import models

from occ.managed_fields import ManagedFields
from occ.ownership.querysets import FieldOwnershipManager, FieldOwnershipQuerySet


def check_ownership(model: type[models.Model]) -> Iterator[CheckMessage]:
    """Yield what would let a write of ``model`` change a field and leave its owners as they are."""
    if model._meta.proxy or model._meta.swapped or model._meta.abstract:
        return
    yield from _check_column(model)
    yield from _check_managers(model)


def _check_column(model: type[models.Model]) -> Iterator[CheckMessage]:
    name = model._meta.object_name
    columns = [field for field in model._meta.get_fields() if isinstance(field, ManagedFields)]
    if len(columns) != 1:
        found = ", ".join(column.name for column in columns) or "none"
        yield Error(
            f"{name} owns fields and needs one ManagedFields column, but has {len(columns)}: {found}.",
            hint=(
                "Keep the inherited managed_fields; or, for another name, set managed_fields = None and add one "
                "ManagedFields() (from occ.ownership)."
            ),
            obj=model,
            id="occ.E040",
        )
        return
    (column,) = columns
    if column.name in getattr(model, "occ_unguarded_fields", ()):
        yield Error(
            f"{name}.occ_unguarded_fields names {column.name!r}: ownership could be changed with no guard.",
            hint=f"Remove {column.name!r} from it.",
            obj=model,
            id="occ.E041",
        )
    if column.null or not column.has_db_default():
        yield Error(
            f"{name}.{column.name} must have the database default {{}} and must not be null.",
            hint="Declare it without null and db_default: ManagedFields() has them right.",
            obj=column,
            id="occ.E042",
        )


def _check_managers(model: type[models.Model]) -> Iterator[CheckMessage]:
    managers = [*model._meta.managers, model._meta.base_manager]
    for manager in {manager.name: manager for manager in managers}.values():
        queryset: type = getattr(manager, "_queryset_class", object)
        if not isinstance(manager, FieldOwnershipManager) or not issubclass(queryset, FieldOwnershipQuerySet):
            yield Error(
                f"The manager {manager.name!r} of {model._meta.object_name} writes without taking ownership.",
                hint=(
                    f"Derive {type(manager).__name__} from occ.ownership.FieldOwnershipManager, or build it with "
                    "FieldOwnershipManager.from_queryset(); a queryset of yours derives from FieldOwnershipQuerySet."
                ),
                obj=model,
                id="occ.E043",
            )

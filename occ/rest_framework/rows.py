"""The row behind an object: what its tag is made of."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import models, router

from occ.etags import RowVersion
from occ.fields import UNSET, VersionField, get_version, version_field


def row_version(instance: models.Model) -> RowVersion:
    """Return which version of which row ``instance`` is.

    Raises:
        ImproperlyConfigured: its model has no version.
    """
    field = version_field(instance)
    if field is None:
        raise ImproperlyConfigured(
            f"{instance._meta.label} has no VersionField, so OptimisticLockMixin cannot guard it. Derive the model "
            "from occ.models.OptimisticLockModel."
        )
    return _row_version(instance, field, get_version(instance))


def stored_version(instance: models.Model) -> RowVersion | None:
    """Return the same, or None where ``instance`` has no row, or no version."""
    field = version_field(instance)
    if field is None:
        return None
    version = get_version(instance)
    return None if version == UNSET else _row_version(instance, field, version)


def _row_version(instance: models.Model, field: VersionField, version: int) -> RowVersion:
    return RowVersion(version=version, label=field.model._meta.label_lower, pk=instance.pk)


def database_of(instance: models.Model) -> str:
    """Return the alias of the database that a save of ``instance`` writes to."""
    return router.db_for_write(type(instance), instance=instance)

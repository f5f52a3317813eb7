"""Who owns a field: what the entries of the ownership column say."""

from __future__ import annotations

from typing import Literal, NamedTuple

from django.db import models

from occ.managed_fields import Entry


class Owner(NamedTuple):
    """One of the managers of a field.

    Attributes:
        manager: its name.
        operation: how it came to own the field: ``"apply"``, or ``"update"`` for plain saves.
    """

    manager: str
    operation: Literal["apply", "update"]


def owners_of(instance: models.Model, field: str) -> tuple[Owner, ...]:
    """Return who owns ``field`` of ``instance``, as it was read; nobody where the model knows no ownership."""
    column = getattr(instance, "_occ_managed_fields", None)
    managed: dict[str, Entry] = {} if column is None else getattr(instance, column.attname)
    entry = managed.get(field, {})
    appliers = [Owner(name, "apply") for name in entry.get("apply", ())]
    return (*appliers, *([Owner(entry["update"], "update")] if "update" in entry else []))

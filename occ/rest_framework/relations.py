"""Many-to-many changes: what to do about a write that changes nothing of the row itself, and yet changes something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models
from rest_framework.utils.model_meta import get_field_info

from occ.snapshots import end_skipping


def write_with_relations(serializer: Any) -> None:
    """Make ``serializer`` write the row, and so move its version, when only many-to-many relations change.

    They are tables of their own, whose rows have no version: the row's stands for them too.
    """
    update = serializer.update

    def update_row(instance: models.Model, validated_data: Mapping[str, Any]) -> models.Model:
        if _changes_relations(instance, validated_data):
            end_skipping(instance)
        return update(instance, validated_data)  # type: ignore[no-any-return]

    serializer.update = update_row


def _changes_relations(instance: models.Model, values: Mapping[str, Any]) -> bool:
    relations = get_field_info(type(instance)).relations
    for name, value in values.items():
        if name in relations and relations[name].to_many and all(isinstance(each, models.Model) for each in value):
            named = {each.pk for each in value}
            if named != set(getattr(instance, name).values_list("pk", flat=True)):
                return True
    return False

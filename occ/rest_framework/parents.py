"""occ_touch_parent: a write of a child moves the version of its parent, in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models import F
from rest_framework.response import Response

from occ.fields import get_version, version_field

if TYPE_CHECKING:
    from occ.rest_framework.writes import Write


class ParentTouch:
    """Remembers a row and its parent before a write, and touches what has to be touched after it.

    ``occ_touch_parent`` names the foreign key to the parent; or it is True on the view of the parent itself, whose
    serializer writes the children: then a write that changes only children moves the version of the row.
    """

    def __init__(self, write: Write) -> None:
        self.write = write
        self.parent = write.view.occ_touch_parent
        self.before: Any = None

    def remember(self, instance: models.Model) -> None:
        """Note what ``instance`` is before the write."""
        self.before = self._state_of(instance)

    def touch(self, instance: models.Model | None, response: Response) -> None:
        """Touch the parents of a child that was written, or the row whose children were."""
        if instance is None:
            return
        if self.parent is True:
            if self.before is not None and self.write.method != "DELETE" and self._state_of(instance) != self.before:
                instance.touch(using=self.write.database())  # type: ignore[attr-defined]
                response.data = self.write.view.get_serializer(instance).data
            return
        after = None if self.write.method == "DELETE" else self._state_of(instance)
        if after != self.before:
            for key in {state[0] for state in (self.before, after) if state is not None}:
                self._touch_parent(type(instance), key)

    def _state_of(self, instance: models.Model) -> Any:
        if self.parent is True:
            instance._prefetched_objects_cache = {}  # type: ignore[attr-defined]
            shown = dict(self.write.view.get_serializer(instance).data)
            for name in self.write.version_names():
                shown.pop(name, None)
            return shown
        return getattr(instance, self._foreign_key(type(instance)).attname), get_version(instance)

    def _foreign_key(self, model: type[models.Model]) -> models.ForeignKey[Any, Any]:
        field = model._meta.get_field(str(self.parent))
        if not isinstance(field, models.ForeignKey) or version_field(field.related_model) is None:
            raise ImproperlyConfigured(
                f"{type(self.write.view).__name__}.occ_touch_parent must be True or name a foreign key of "
                f"{model._meta.label} to a model with a VersionField, not {self.parent!r}."
            )
        return field

    def _touch_parent(self, model: type[models.Model], key: Any) -> None:
        foreign_key = self._foreign_key(model)
        if key is None:
            return
        parent = foreign_key.related_model
        version: Any = version_field(parent)
        # Unguarded on purpose: children are guarded themselves, and two of them may be written at once.
        rows = parent._base_manager.using(self.write.database()).filter(**{foreign_key.target_field.name: key})
        rows.update(**{version.name: F(version.name)})

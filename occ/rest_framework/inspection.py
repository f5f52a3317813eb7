"""What classes tell: which field carries the version, what a serializer shows and writes, what a view answers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from rest_framework import fields, relations, serializers

from occ.fields import version_field
from occ.rest_framework.nested import NestedField

_FACTS = "_occ_facts"

# What decides on the fields of a serializer and on what they show. A class that has its own may show anything.
_SERIALIZER_SEAMS = ("__init__", "fields", "_readable_fields", "get_fields", "get_field_names", "to_representation")

# What decides on the answer of a view, likewise.
_VIEW_SEAMS = (
    *("get", "put", "patch", "post", "retrieve", "create", "update", "partial_update"),
    *("get_serializer", "get_serializer_class", "get_serializer_context", "finalize_response"),
)

# Fields whose output is a function of the stored value alone. Not among them: files, whose address depends on the
# request and may be signed, and method and read-only fields, which run code.
_VALUE_FIELDS = (
    fields.BooleanField,
    fields.CharField,
    fields.ChoiceField,
    fields.DateField,
    fields.DateTimeField,
    fields.DecimalField,
    fields.DurationField,
    fields.FloatField,
    fields.IntegerField,
    fields.IPAddressField,
    fields.JSONField,
    fields.TimeField,
    fields.UUIDField,
    relations.PrimaryKeyRelatedField,
)


class SerializerFacts:
    """What one serializer class tells. Looked at once per class: building a serializer's fields is slow."""

    def __init__(self, serializer_class: type[Any]) -> None:
        self._class = serializer_class
        self.version_names = _version_names(serializer_class)

    @cached_property
    def mirrors_row(self) -> bool:
        """Whether what the serializer shows is a function of the row's own columns, so that the version tags it.

        False where that is not sure.
        """
        cls: Any = self._class
        base = serializers.ModelSerializer
        if not issubclass(cls, base) or any(
            getattr(cls, seam) is not getattr(base, seam) for seam in _SERIALIZER_SEAMS
        ):
            return False
        try:
            shown = [field for field in cls().fields.values() if not field.write_only]
        except Exception:
            return False  # it needs more than a class, so what it shows may depend on that
        return all(_shows_own_column(field, cls.Meta.model) for field in shown)

    @cached_property
    def writes_beside_row(self) -> bool:
        """Whether saving the serializer may write rows of other tables: many-to-many ones, or nested objects."""
        cls: Any = self._class
        base = serializers.ModelSerializer
        if any(getattr(cls, method, None) is not getattr(base, method) for method in ("save", "update")):
            return True
        try:
            writable = [field for field in cls().fields.values() if not field.read_only]
        except Exception:
            return True
        return any(isinstance(field, relations.ManyRelatedField | serializers.BaseSerializer) for field in writable)

    @cached_property
    def nested_fields(self) -> tuple[NestedField, ...]:
        """The writable nested serializers of rows that have versions."""
        cls: Any = self._class
        try:
            writable = [field for field in cls().fields.values() if not field.read_only]
        except Exception:
            return ()
        return tuple(
            NestedField(name=field.field_name, source=field.source, keys=keys, versions=versions)
            for field in writable
            for keys, versions in [_names_in_nested(field)]
            if keys and versions
        )


class ViewFacts:
    """What one view class tells.

    Attributes:
        extra_actions: the names of its ``@action`` methods, those of their ``mapping`` included.
        answers_as_drf_does: whether its answers are those of DRF's generic views: the one serializer's data, and that
            alone.
    """

    def __init__(self, view_class: type[Any]) -> None:
        actions = view_class.get_extra_actions() if hasattr(view_class, "get_extra_actions") else ()
        self.extra_actions = frozenset(name for action in actions for name in action.mapping.values())
        self.answers_as_drf_does = all(
            method is None or getattr(method, "__module__", "").startswith(("rest_framework.", "occ.rest_framework."))
            for method in (getattr(view_class, seam, None) for seam in _VIEW_SEAMS)
        )


def serializer_facts(serializer_class: type[Any]) -> SerializerFacts:
    """Return what ``serializer_class`` tells."""
    # On the class itself, so that they live as long: some projects make classes per request.
    facts: SerializerFacts | None = vars(serializer_class).get(_FACTS)
    if facts is None:
        facts = SerializerFacts(serializer_class)
        setattr(serializer_class, _FACTS, facts)
    return facts


def view_facts(view_class: type[Any]) -> ViewFacts:
    """Return what ``view_class`` tells."""
    facts: ViewFacts | None = vars(view_class).get(_FACTS)
    if facts is None:
        facts = ViewFacts(view_class)
        setattr(view_class, _FACTS, facts)
    return facts


def _version_names(serializer_class: type[Any]) -> tuple[str, ...]:
    """Return the names under which a payload carries the version of the row: the fields whose source it is."""
    meta = getattr(serializer_class, "Meta", None)
    model = getattr(meta, "model", None)
    field = version_field(model) if model else None
    if field is None:
        return ()
    declared = getattr(serializer_class, "_declared_fields", {})
    sources = {name: each.source or name for name, each in declared.items()}
    for name in _automatic_names(meta, field.name):
        options = getattr(meta, "extra_kwargs", {}).get(name, {})
        sources.setdefault(name, options.get("source", name))
    return tuple(name for name, source in sources.items() if source == field.name)


def _names_in_nested(field: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of key and version in the payload of a nested serializer; none where it is no such field."""
    child = field.child if isinstance(field, serializers.ListSerializer) else field
    if not isinstance(child, serializers.ModelSerializer):
        return (), ()
    model: Any = child.Meta.model
    key = model._meta.pk.name
    keys = tuple(name for name, each in child.fields.items() if each.source in ("pk", key))
    return keys, serializer_facts(type(child)).version_names


def _automatic_names(meta: Any, version: str) -> list[str]:
    """Return the names of the fields that a ModelSerializer makes by itself and that may show the version."""
    names = getattr(meta, "fields", None)
    if names is None or names == serializers.ALL_FIELDS:
        return [] if version in (getattr(meta, "exclude", None) or ()) else [version]
    return list(names)


def _shows_own_column(field: Any, model: type[models.Model]) -> bool:
    if not isinstance(field, _VALUE_FIELDS) or not type(field).__module__.startswith("rest_framework."):
        return False
    if getattr(field, "localize", False):
        return False
    try:
        column = model._meta.get_field(field.source or "")
    except FieldDoesNotExist:
        return False
    return bool(column.concrete and not column.many_to_many)

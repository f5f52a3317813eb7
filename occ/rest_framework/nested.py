"""Nested writes: the version that the payload names for a child is checked too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Manager

from occ.exceptions import BulkConflict, Conflict
from occ.fields import get_version, version_field
from occ.preconditions import MalformedPrecondition, from_body
from occ.rest_framework.bodies import may_be_key
from occ.rest_framework.conflicts import report
from occ.rest_framework.exceptions import InvalidPrecondition, StaleVersion


@dataclass(frozen=True, kw_only=True)
class NestedField:
    """A writable nested serializer: where its payload is, where its rows are, and what names key and version in it."""

    name: str
    source: str
    keys: tuple[str, ...]
    versions: tuple[str, ...]


def check_children(instance: models.Model, data: Any, fields: tuple[NestedField, ...], using: str) -> None:
    """Raise ``StaleVersion`` unless the children that ``data`` names with a version are at that version.

    Rows that are no children of ``instance`` are not looked at: what becomes of them is the serializer's affair. The
    children stay locked until the transaction ends, since nothing else ties what the serializer writes to the check.
    """
    if not isinstance(data, Mapping):
        return
    conflicts = [
        conflict
        for field in fields
        for conflict in _conflicts(instance, field, list(_expected(data.get(field.name), field)), using)
    ]
    if conflicts:
        conflict = BulkConflict(conflicts=conflicts)
        report(conflict)
        raise StaleVersion.of_conflict(conflict)


def _expected(payload: Any, field: NestedField) -> Iterator[tuple[Any, int]]:
    for item in payload if isinstance(payload, list) else [payload]:
        if not isinstance(item, Mapping):
            continue
        key = next((item[name] for name in field.keys if name in item), None)
        for name in field.versions:
            if may_be_key(key) and name in item:
                try:
                    yield key, from_body(item[name])
                except MalformedPrecondition as error:
                    raise InvalidPrecondition(f"{field.name}: {error}") from error


def _conflicts(
    instance: models.Model, field: NestedField, expected: list[tuple[Any, int]], using: str
) -> Iterator[Conflict]:
    if not expected:
        return
    children = _locked_children(getattr(instance, field.source, None), [key for key, _ in expected], using)
    for key, version in expected:
        child = next((each for each in children if _same(each, key)), None)
        if child is not None and get_version(child) != version:
            yield Conflict(
                model=type(child),
                pk=child.pk,
                expected=version,
                actual=get_version(child),
                operation="nested write",
                using=using,
                instance=child,
            )


def _locked_children(related: Any, keys: list[Any], using: str) -> list[models.Model]:
    if isinstance(related, models.Model):
        rows = type(related)._base_manager.filter(pk=related.pk)
    elif isinstance(related, Manager):
        rows = related.get_queryset()
    else:
        return []
    if version_field(rows.model) is None:
        return []
    connection = transaction.get_connection(using)
    rows = rows.using(using)
    if connection.in_atomic_block and connection.features.has_select_for_update:
        rows = rows.select_for_update()
    try:
        return list(rows.filter(pk__in=keys))
    except (ValueError, TypeError, ValidationError):
        return []  # keys that no row has; the serializer will say so


def _same(child: models.Model, key: Any) -> bool:
    return str(child.pk) == str(key)

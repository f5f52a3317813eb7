"""check_versions: the guard of endpoints that write many rows in one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models
from django.utils.translation import gettext as _

from occ.exceptions import BulkConflict, Conflict
from occ.fields import get_version, version_field
from occ.preconditions import MalformedPrecondition, from_body
from occ.rest_framework.bodies import may_be_key
from occ.rest_framework.conflicts import report
from occ.rest_framework.exceptions import InvalidPrecondition, PreconditionRequired, StaleVersion

M = TypeVar("M", bound=models.Model)


def check_versions(queryset: models.QuerySet[M], items: Iterable[Mapping[str, Any]], *, key: str = "pk") -> list[M]:
    """Return the objects that ``items`` name, in their order, if each is at the version that its item names.

    All or nothing: one item that is not, and none may be written. Write what is returned with the guarded
    ``bulk_update``, or save each in one transaction; a rival who comes in between is refused there, and the view's
    mixin answers 409 as well.

    Args:
        queryset: the rows that the client may write; others count as gone.
        items: what the client sent, each with the key and the version of a row, the latter under the name of the
            model's VersionField.
        key: the name of the key in the items, "pk" or that of the model's primary key.

    Raises:
        InvalidPrecondition: no list of items, an item without a key, two with one key, or a version that is none (400).
        PreconditionRequired: an item without a version (428).
        StaleVersion: rows have changed or are gone; ``conflicts`` in the answer names each (409).
    """
    model = queryset.model
    field = version_field(model)
    if field is None:
        raise ImproperlyConfigured(f"{model._meta.label} has no VersionField, so its rows have no versions to check.")
    expected = _expected_versions(items, model, key, field.name)
    found = queryset.in_bulk(list(expected))
    conflicts = [
        Conflict(
            model=model,
            pk=pk,
            expected=version,
            actual=get_version(found[pk]) if pk in found else None,
            operation="bulk write",
            using=queryset.db,
            instance=found.get(pk),
        )
        for pk, version in expected.items()
        if pk not in found or get_version(found[pk]) != version
    ]
    if conflicts:
        conflict = BulkConflict(conflicts=conflicts)
        report(conflict)
        raise StaleVersion.of_conflict(conflict)
    return [found[pk] for pk in expected]


def _expected_versions(
    items: Iterable[Mapping[str, Any]], model: type[models.Model], key: str, version_name: str
) -> dict[Any, int]:
    names = (key, model._meta.pk.name) if key == "pk" else (key,)
    expected: dict[Any, int] = {}
    without: list[Any] = []
    if not isinstance(items, Iterable) or isinstance(items, Mapping | str):
        raise InvalidPrecondition(_("Send a list of items, each with the key and the version of a row."))
    for number, item in enumerate(items, start=1):
        pk = _key_of(item, names, model, number)
        if pk in expected or pk in without:
            raise InvalidPrecondition(_("Two items name the row %(pk)s.") % {"pk": pk})
        if version_name not in item:
            without.append(pk)
            continue
        try:
            expected[pk] = from_body(item[version_name])
        except MalformedPrecondition as error:
            raise InvalidPrecondition(_("Item %(number)s: %(error)s") % {"number": number, "error": error}) from error
    if without:
        raise PreconditionRequired(
            _('Say which version of each row you want to change: "%(field)s" is missing for %(pks)s.')
            % {"field": version_name, "pks": ", ".join(map(str, without))}
        )
    return expected


def _key_of(item: Mapping[str, Any], names: tuple[str, ...], model: type[models.Model], number: int) -> Any:
    value = next((item[name] for name in names if name in item), None) if isinstance(item, Mapping) else None
    if not isinstance(value, bool | float | dict | list | None):
        try:
            key = model._meta.pk.to_python(value)
        except ValidationError:
            key = None
        if not isinstance(key, int | None) or may_be_key(key):
            return key
    raise InvalidPrecondition(
        _('Item %(number)s names no row: it needs "%(name)s".') % {"number": number, "name": names[-1]}
    )

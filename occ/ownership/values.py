"""The values that an apply names: which fields it may name, what it takes for them, and when they are what is there."""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from occ.managed_fields import ownable_fields
from occ.snapshots import stored_form

if TYPE_CHECKING:
    Field = models.Field[Any, Any]


def checked_values(model: type[models.Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` by field name, each as the field has it in Python.

    They are converted as a save converts them, and no more validated than by it: that is the work of forms and
    serializers.

    Raises:
        ValueError: a name that is no field, or none that can be owned; an expression.
        ValidationError: values that their fields cannot take, by field.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"values must be a mapping of field names to values, not {type(values).__name__}.")
    checked: dict[str, Any] = {}
    wrong: dict[str, Any] = {}
    for name, value in values.items():
        field = _ownable(model, name)
        if field.name in checked or field.name in wrong:
            raise ValueError(f"values names the field {field.name!r} twice, once by its column.")
        try:
            checked[field.name] = _converted(field, value)
        except ValidationError as error:
            wrong[field.name] = error
    if wrong:
        raise ValidationError(wrong)
    return checked


def is_same(field: Field, one: Any, other: Any, connection: BaseDatabaseWrapper) -> bool:
    """Tell whether two values of ``field`` would be the same in the row."""
    using = connection.alias
    return bool(stored_form(field, one, using) == stored_form(field, other, using))


def default_of(field: Field) -> tuple[bool, Any]:
    """Return whether ``field`` has something to return to when nobody owns it any more, and what.

    That is its default, in Python or in the database; without one NULL, or the empty text. A number that must not be
    null and has no default stays what it is.
    """
    if field.has_db_default() and not field.has_default():
        default = field.db_default
        return True, default if hasattr(default, "resolve_expression") else models.Value(default, field)
    value = field.get_default()
    return value is not None or field.null, value


def _ownable(model: type[models.Model], name: Any) -> Field:
    ownable = ownable_fields(model)
    try:
        field: Any = model._meta.get_field(name)  # also by the name of its column, as "author_id"
    except FieldDoesNotExist:
        raise ValueError(
            f"{model._meta.label} has no field {name!r}. Fields that can be applied: {', '.join(ownable)}."
        ) from None
    if field.name in ownable:
        return ownable[field.name]
    raise ValueError(f"{model._meta.label}.{field.name} cannot be applied: {_reason(model, field)}.")


def _reason(model: type[models.Model], field: Any) -> str:
    if field is getattr(model, "_occ_version_field", None):
        return "the version moves by itself"
    if field is getattr(model, "_occ_managed_fields", None):
        return "ownership follows from what is applied"
    if not field.concrete or field.many_to_many:
        return "only columns of the row have owners, not relations to others"
    if field.primary_key:
        return "the primary key says which row it is"
    if field.generated:
        return "the database computes it"
    if field.name in getattr(model, "occ_unguarded_fields", ()):
        return "it is one of occ_unguarded_fields, which nobody owns"
    return "it is written by Django itself"


def _converted(field: Field, value: Any) -> Any:
    if hasattr(value, "resolve_expression"):
        raise ValueError(
            f"{field.model._meta.label}.{field.name} cannot be applied as an expression, since what is owned must be "
            "a known value. Use mutate() or update() to compute from what is there."
        )
    if isinstance(value, models.Model):
        value = _key_of(field, value)
    if isinstance(field, models.JSONField):
        try:
            json.dumps(value, cls=field.encoder)
        except (TypeError, ValueError) as error:
            raise ValidationError(f"This is no JSON: {error}.", code="invalid") from None
    else:
        value = field.to_python(value)
    if value is None and not field.null:
        raise ValidationError(field.error_messages["null"], code="null")
    if isinstance(field, models.DecimalField) and value is not None:
        value = _rounded(field, value)
    return value


def _key_of(field: Field, instance: models.Model) -> Any:
    related = field.related_model
    if not isinstance(field, models.ForeignKey) or not isinstance(instance, related):  # type: ignore[arg-type]
        raise ValueError(
            f"{field.model._meta.label}.{field.name} cannot be applied as a {instance._meta.label} object."
        )
    key = getattr(instance, field.target_field.attname)
    if key is None:
        raise ValueError(f"{field.name} cannot be applied as an object that has not been saved. Save it first.")
    return key


def _rounded(field: models.DecimalField[Any, Any], value: decimal.Decimal) -> decimal.Decimal:
    """Round as the column would, so that applying the same number again finds it there."""
    try:
        return value.quantize(
            decimal.Decimal(1).scaleb(-(field.decimal_places or 0)),
            context=decimal.Context(prec=field.max_digits, rounding=decimal.ROUND_HALF_EVEN),
        )
    except decimal.InvalidOperation:
        raise ValidationError(
            f"This has more than the {field.max_digits} digits that fit.", code="max_digits"
        ) from None

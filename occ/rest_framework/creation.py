"""PUT-as-create (``occ_put_creates``): a PUT to an address without a row creates it there, and never overwrites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured, ValidationError
from django.db import IntegrityError, models, transaction
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import serializers, status
from rest_framework.request import clone_request
from rest_framework.response import Response

from occ.exceptions import Conflict
from occ.rest_framework.exceptions import PreconditionFailed, StaleVersion, row_name

if TYPE_CHECKING:
    from occ.rest_framework.writes import Write


class Absent(Exception):
    """There is no row at the address of a PUT that may create one."""


def create_at_address(write: Write) -> Response:
    """Create the row that the request's address names, and answer 201.

    Raises:
        PreconditionFailed: If-Match demands a row; or somebody else has just created it, and If-None-Match demands
            that nobody has.
        StaleVersion: the body names a version; or somebody else has just created the row.
    """
    view: Any = write.view
    request = write.request
    model: type[models.Model] = view.get_queryset().model
    field, value = _key_in_address(write, model)
    row = row_name(model, value)
    _check_permission_to_create(write)
    version, body_error = write.version_in_body()
    if write.if_match():
        raise PreconditionFailed.of_absent_row(row)
    if version is not None:
        raise StaleVersion.of_conflict(Conflict(model=model, pk=value, expected=version, actual=None, operation="PUT"))
    only_new = write.if_none_match().any
    if body_error is not None:
        raise body_error
    serializer = view.get_serializer(data=_with_key(request.data, field, value))
    try:
        serializer.is_valid(raise_exception=True)
        if serializer.validated_data.get(field.name, value) != value:
            raise serializers.ValidationError({field.name: _("This must be the same as in the address.")})
        serializer.validated_data[field.name] = value
        with transaction.atomic(using=write.database()):
            view.perform_create(serializer)
    except (serializers.ValidationError, IntegrityError) as error:
        if not model._default_manager.filter(**{field.name: value}).exists():
            raise
        # Somebody else was faster.
        raise (PreconditionFailed.of_present_row(row, None) if only_new else StaleVersion.unknown()) from error
    return Response(serializer.data, status=status.HTTP_201_CREATED)


def _key_in_address(write: Write, model: type[models.Model]) -> tuple[models.Field[Any, Any], Any]:
    view = write.view
    name = model._meta.pk.name if view.lookup_field == "pk" else view.lookup_field
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        field = None
    if not isinstance(field, models.Field) or not (field.unique or field.primary_key):
        raise ImproperlyConfigured(
            f"{type(view).__name__} has occ_put_creates, which needs a lookup_field that is a unique field of "
            f"{model._meta.label}; {view.lookup_field!r} is not."
        )
    try:
        return field, field.to_python(view.kwargs[view.lookup_url_kwarg or view.lookup_field])
    except ValidationError:
        raise Http404 from None  # no row can have this address


def _check_permission_to_create(write: Write) -> None:
    view, request = write.view, write.request
    view.request = clone_request(request, "POST")
    try:
        view.check_permissions(view.request)
    finally:
        view.request = request


def _with_key(data: Any, field: models.Field[Any, Any], value: Any) -> Any:
    """Return the body with the key of the address in it, where the body leaves it out."""
    if not isinstance(data, Mapping) or field.name in data:
        return data
    completed = data.copy() if hasattr(data, "copy") else dict(data)
    completed[field.name] = value
    return completed

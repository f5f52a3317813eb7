"""ApplyPatchMixin: field ownership over HTTP, as Kubernetes' server-side apply has it.

``PATCH``, ``Content-Type: application/apply-patch+json``, ``?fieldManager=hpa&force=false&dryRun=All``: the body is all
that the manager wants to own, no more and no less.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils.translation import gettext as _
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.response import Response

from occ.attribution import check_manager_name
from occ.exceptions import FieldConflict
from occ.ownership import FieldOwnershipQuerySet
from occ.rest_framework.bodies import nested_too_deeply
from occ.rest_framework.exceptions import Refusal, row_name
from occ.rest_framework.inspection import view_facts

if TYPE_CHECKING:
    from rest_framework.generics import GenericAPIView
    from rest_framework.request import Request

    _View = GenericAPIView[Any]
else:
    _View = object

APPLY_PATCH = "application/apply-patch+json"
_FLAGS = {"true": True, "false": False}
_PLAIN = (
    *(str, int, float, bool, type(None), list, dict, decimal.Decimal, uuid.UUID),
    *(datetime.date, datetime.time, datetime.timedelta),
)


class ApplyPatchParser(JSONParser):
    """Parses what is to be applied."""

    media_type = APPLY_PATCH


class FieldsOwned(Refusal):
    """Others own fields that an apply would change."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "field_conflict"

    @classmethod
    def of_conflict(cls, conflict: FieldConflict, names: Mapping[str, str]) -> FieldsOwned:
        """Return the refusal that tells a client of ``conflict``; ``names`` are those that it knows the fields by."""
        conflicts = [
            {
                "field": names.get(each.field, each.field),
                "manager": each.manager,
                "value": each.value if isinstance(each.value, _PLAIN) else str(each.value),
            }
            for each in conflict.conflicts
        ]
        fields = ", ".join(dict.fromkeys(str(each["field"]) for each in conflicts))
        managers = ", ".join(dict.fromkeys(str(each["manager"]) for each in conflicts))
        detail = _(
            "Nothing was written: of %(row)s the fields %(fields)s are managed by %(managers)s. Leave them out, send "
            "the values that they have to share them, or take them with force=true."
        )
        facts = {"row": row_name(conflict.model, conflict.pk), "fields": fields, "managers": managers}
        return cls(detail % facts, conflicts=conflicts)


class ApplyPatchMixin(_View):
    """Let PATCH requests of the type ``application/apply-patch+json`` apply fields; others are as they were.

    For views of models with ``FieldOwnershipModel``, among the bases before the view, in any order with
    ``OptimisticLockMixin``. The query says who applies (``fieldManager``, required), whether to take what others own
    (``force=true``) and whether only to look (``dryRun=All``). The body names fields that the serializer can write,
    and is validated by it; names that it does not have are refused. No If-Match is needed, and none is taken but
    ``*``; nor is If-None-Match: ownership is the guard.

    Answers 200 with the object; 409 with every (field, manager, value) that is in the way; 400 for what cannot be
    applied. ``Accept-Patch`` tells of the type in answers to OPTIONS and in 415.

    Not promised: that ``perform_update`` or the serializer's ``update`` run; override ``perform_apply`` instead.
    """

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method == "PATCH" and not self._is_extra_action() and _is_apply(request):
            setattr(self, "patch", self._apply)  # noqa: B010 - on the object, not in its class

    def get_parsers(self) -> list[BaseParser]:
        parsers = list(super().get_parsers())
        request = getattr(self, "request", None)
        return [*parsers, ApplyPatchParser()] if getattr(request, "method", None) == "PATCH" else parsers

    def perform_apply(
        self, instance: Any, values: Mapping[str, Any], *, manager: str, force: bool, dry_run: bool
    ) -> Any:
        """Apply validated ``values`` to the row of ``instance`` and return the object as it is then."""
        queryset: Any = self.get_queryset()
        if not isinstance(queryset, FieldOwnershipQuerySet):
            raise ImproperlyConfigured(
                f"{type(self).__name__} has ApplyPatchMixin, but {queryset.model._meta.label} knows no ownership. "
                "Derive the model from occ.ownership.FieldOwnershipModel."
            )
        return queryset.apply(instance.pk, values, manager=manager, force=force, dry_run=dry_run)

    def handle_exception(self, exc: Exception) -> Response:
        """Answer as ever, and 409 to conflicts of ownership."""
        refusal: APIException | None = (
            FieldsOwned.of_conflict(exc, {}) if isinstance(exc, FieldConflict) else nested_too_deeply(exc)
        )
        if refusal is not None:
            refusal.__cause__ = exc
            exc = refusal
        response = super().handle_exception(exc)
        if isinstance(exc, Refusal):
            exc.complete(response)
        return response

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        answer = super().finalize_response(request, response, *args, **kwargs)
        unsupported = answer.status_code == status.HTTP_415_UNSUPPORTED_MEDIA_TYPE and request.method == "PATCH"
        if unsupported or request.method == "OPTIONS":
            answer["Accept-Patch"] = ", ".join([*(each.media_type for each in self.parser_classes), APPLY_PATCH])
        return answer

    def _apply(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        instance = type(self).get_object(self)  # not the exchange's, which would ask for the version
        manager, force, dry_run = _options(request)
        if request.stream is None:  # a body that got lost must not give up all fields; who means to sends {}
            raise ParseError(_("The body is empty. Send the fields to apply, or {} to give up all that you manage."))
        serializer: Any = self.get_serializer(instance, data=request.data, partial=True)
        writable = {name: field for name, field in serializer.fields.items() if not field.read_only}
        _refuse_unknown(request.data, writable)
        serializer.is_valid(raise_exception=True)
        names = {str(field.source): name for name, field in writable.items()}
        try:
            applied = self.perform_apply(
                instance, serializer.validated_data, manager=manager, force=force, dry_run=dry_run
            )
        except FieldConflict as conflict:
            raise FieldsOwned.of_conflict(conflict, names) from conflict
        except ValidationError as error:
            raise serializers.ValidationError(serializers.as_serializer_error(error)) from error
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error
        data = self.get_serializer(applied).data
        return Response(dict(data) if dry_run else data)  # what is only looked at has no ETag

    def _is_extra_action(self) -> bool:
        return getattr(self, "action", None) in view_facts(type(self)).extra_actions


def _is_apply(request: Request) -> bool:
    return (request.content_type or "").partition(";")[0].strip().lower() == APPLY_PATCH


def _options(request: Request) -> tuple[str, bool, bool]:
    """Return who applies, by force or not, for real or not."""
    query = request.query_params
    manager = query.get("fieldManager", "")
    errors: dict[str, Any] = {}
    try:
        check_manager_name(manager)
    except ValueError:
        errors["fieldManager"] = [_("Say who applies: fieldManager, 1 to 128 printable characters.")]
    force = _FLAGS.get(query.get("force", "false"))
    if force is None:
        errors["force"] = [_("This must be true or false.")]
    dry_run = {**_FLAGS, "All": True}.get(query.get("dryRun", "false"))
    if dry_run is None:
        errors["dryRun"] = [_("This must be All, or left out.")]
    for name, allowed in (("If-Match", ("", "*")), ("If-None-Match", ("",))):
        if request.headers.get(name, "").strip(" \t,") not in allowed:
            text = _("An apply is guarded by the ownership of its fields; leave %(header)s out.")
            errors[name] = [text % {"header": name}]
    if errors:
        raise serializers.ValidationError(errors)
    return manager, bool(force), bool(dry_run)


def _refuse_unknown(data: Any, writable: Mapping[str, Any]) -> None:
    if not isinstance(data, Mapping):
        return  # the serializer says so
    unknown = [name for name in data if name not in writable]
    if unknown:
        known = ", ".join(writable)
        text = _("This cannot be applied. What can: %(fields)s.") % {"fields": known}
        raise serializers.ValidationError({str(name): [text] for name in unknown})

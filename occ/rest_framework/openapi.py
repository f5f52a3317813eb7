"""OpenAPI by drf-spectacular: preconditions, tags and refusals in the schema of every guarded view.

To use it, set ``REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] = "occ.rest_framework.openapi.AutoSchema"``. Views without the
mixin get what drf-spectacular gives them. Nothing else here imports this module, so drf-spectacular stays optional.
"""

from __future__ import annotations

from typing import Any

# drf-spectacular may be absent where types are checked.
from drf_spectacular.openapi import AutoSchema as SpectacularSchema  # type: ignore[import-not-found, unused-ignore]
from rest_framework import authentication, pagination, permissions, serializers

from occ.attribution import MAX_LENGTH
from occ.conf import occ_settings
from occ.rest_framework.apply import APPLY_PATCH, ApplyPatchMixin
from occ.rest_framework.inspection import serializer_facts, view_facts
from occ.rest_framework.mixins import OptimisticLockMixin

_ETAG = {
    "description": "The version of the row that this answer shows, to be sent back in If-Match.",
    "schema": {"type": "string"},
    "example": '"42-9f3c1a2b"',
}
_IF_MATCH = "The ETag of the version that is to be written, or `*` for any version{body}."
_IF_MATCH_OF_READ = "Answer only if the row is still at one of these versions."
_APPLY_PARAMETERS: list[tuple[str, str, dict[str, Any]]] = [
    ("fieldManager", "who owns the fields; required.", {"type": "string", "maxLength": MAX_LENGTH}),
    ("force", "take fields that others own.", {"type": "boolean", "default": False}),
    ("dryRun", "write nothing, only show what would be.", {"type": "string", "enum": ["All"]}),
]
# Beyond the last page of these is a 404; LimitOffsetPagination has empty pages for ever.
_PAGES_END = (pagination.PageNumberPagination, pagination.CursorPagination)
_IF_NONE_MATCH = "The ETags of what the client has already."


class RefusalSerializer(serializers.Serializer[Any]):
    """What a refusal says."""

    detail = serializers.CharField()
    code = serializers.CharField(required=False)
    current_version = serializers.IntegerField(required=False, allow_null=True)


class AutoSchema(SpectacularSchema):  # type: ignore[misc, unused-ignore]
    """drf-spectacular's, which knows what ``OptimisticLockMixin`` adds to a view."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        view = self.view
        view_facts(type(view))  # looks at all attributes of the class, which takes the view from this descriptor
        self.view = view
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        guarded = isinstance(self.view, OptimisticLockMixin)
        if guarded:
            self._add_preconditions(operation)
        if self._applies():
            self._add_apply(operation)
        if guarded or self._applies():
            self._refuse_as_any_view(operation)
        return operation

    def _applies(self) -> bool:
        extra = getattr(self.view, "action", None) in view_facts(type(self.view)).extra_actions
        return self.method == "PATCH" and isinstance(self.view, ApplyPatchMixin) and not extra

    def _add_apply(self, operation: dict[str, Any]) -> None:
        """Document what a body of the type of applies goes with; the type itself is that of a parser."""
        for name, description, schema in _APPLY_PARAMETERS:
            described = f"With `{APPLY_PATCH}`: {description}"
            parameter = {"in": "query", "name": name, "description": described, "schema": schema}
            operation.setdefault("parameters", []).append(parameter)
        self._refuse_body(operation, "The body or the query is not valid.")
        self._refuse(operation, "409", "Others manage fields that would change.")
        self._refuse(operation, "415", "The type of the body is none that PATCH takes; Accept-Patch names those.")

    def _add_preconditions(self, operation: dict[str, Any]) -> None:
        name = getattr(self.view, "action", None)
        extra = name in view_facts(type(self.view)).extra_actions
        if self.method == "GET":
            if not extra and not self._shows_list(name):
                self._add_to_read(operation)
        elif self.method == "POST" and not extra:
            self._add_tag(operation, "201")
            self._refuse_body(operation, "The body is not valid.")
            self._refuse(operation, "409", "Somebody else changed the same data at this moment.")
        elif extra:
            if getattr(getattr(self.view, str(name)), "occ_requires_if_match", False):
                self._add_to_write(operation, required=True)
        else:
            self._add_to_write(operation, required=self._is_required())

    def _add_to_read(self, operation: dict[str, Any]) -> None:
        _add_header(operation, "If-None-Match", _IF_NONE_MATCH)
        _add_header(operation, "If-Match", _IF_MATCH_OF_READ)
        self._add_tag(operation, "200")
        responses = operation["responses"]
        responses.setdefault("304", {"description": "The client has this already.", "headers": {"ETag": _ETAG}})
        self._refuse(operation, "400", "If-Match is malformed.")
        self._refuse(operation, "412", "If-Match names other versions.")

    def _add_to_write(self, operation: dict[str, Any], *, required: bool) -> None:
        names = serializer_facts(type(self._serializer())).version_names if self._serializer() else ()
        body = f"; or send `{names[0]}` in the body" if names and self.method != "DELETE" else ""
        optional = body or self._applies()
        _add_header(operation, "If-Match", _IF_MATCH.format(body=body), required=required and not optional)
        view: Any = self.view
        if self.method == "PUT" and view.occ_put_creates and "200" in operation["responses"]:
            created = {**operation["responses"]["200"], "description": "There was no such row, now there is."}
            operation["responses"].setdefault("201", created)
        for code in ("200", "201"):
            self._add_tag(operation, code)
        if "requestBody" in operation:
            self._refuse_body(operation, "The precondition is malformed, or the body is not valid.")
        else:
            self._refuse(operation, "400", "The precondition is malformed.")
        self._refuse(operation, "409", "The row has changed since the client read it.")
        if occ_settings.STALE_STATUS == 412:
            self._refuse(operation, "412", "If-Match names other versions, or If-None-Match this one.")
        else:
            self._refuse(operation, "412", "If-None-Match names this version.")
        if required:
            self._refuse(operation, "428", "The request does not say which version it expects.")

    def _refuse_as_any_view(self, operation: dict[str, Any]) -> None:
        """Document what DRF answers before the method of the view runs, and where there is nothing to show."""
        schema: Any = self
        view = schema.view
        authenticators = view.get_authenticators()
        restricted = any(type(each) is not permissions.AllowAny for each in view.get_permissions())
        challenges = bool(authenticators) and _challenges(authenticators[0])
        if challenges:
            self._refuse(operation, "401", "The client has not authenticated itself, or not as anybody known here.")
        by_session = any(isinstance(each, authentication.SessionAuthentication) for each in authenticators)
        if restricted or by_session or (authenticators and not challenges):
            self._refuse(operation, "403", "The client may not do this.")
        if any(each["in"] == "path" for each in operation.get("parameters", ())):
            self._refuse(operation, "404", "There is no such row.")
        elif self.method == "GET" and isinstance(schema._get_paginator(), _PAGES_END):
            self._refuse(operation, "404", "There is no such page.")
        self._refuse(operation, "406", "Accept names no type that this view can give.")
        if "requestBody" in operation:
            self._refuse(operation, "415", "The view cannot read bodies of this type.")
        if view.get_throttles():
            self._refuse(operation, "429", "The client has asked too often.")

    def _refuse_body(self, operation: dict[str, Any], description: str) -> None:
        """Document a 400 that names the fields which are wrong, as DRF does, or says what else is."""
        self._refuse(operation, "400", description, {"type": "object", "additionalProperties": {}})

    def _refuse(self, operation: dict[str, Any], code: str, description: str, *others: dict[str, Any]) -> None:
        """Document an answer, unless the view does so itself; ``others`` are schemas that it may have instead."""
        refusal = self.resolve_serializer(RefusalSerializer, "response").ref
        schema = {"anyOf": [refusal, *others]} if others else refusal
        content = {media_type: {"schema": schema} for media_type in self.map_renderers("media_type")}
        operation["responses"].setdefault(code, {"description": description, "content": content})

    def _add_tag(self, operation: dict[str, Any], code: str) -> None:
        response = operation["responses"].get(code)
        if isinstance(response, dict):
            response.setdefault("headers", {}).setdefault("ETag", _ETAG)

    def _is_required(self) -> bool:
        view: Any = self.view
        if self.method == "PATCH" and view.occ_patch == "retry":
            return False
        own: bool | None = view.occ_require_if_match
        return occ_settings.REQUIRE_IF_MATCH if own is None else own

    def _shows_list(self, name: str | None) -> bool:
        return name == "list" if name is not None else hasattr(self.view, "list")

    def _serializer(self) -> Any:
        schema: Any = self
        return None if getattr(self.view, "get_serializer", None) is None else schema._get_serializer()


def _challenges(authenticator: Any) -> bool:
    """Tell whether DRF answers 401, naming ``authenticator``'s scheme, to clients that it does not know; else 403."""
    method = type(authenticator).authenticate_header
    return method is not authentication.BaseAuthentication.authenticate_header


def _add_header(operation: dict[str, Any], name: str, description: str, *, required: bool = False) -> None:
    parameters = operation.setdefault("parameters", [])
    if any(each.get("in") == "header" and each.get("name", "").lower() == name.lower() for each in parameters):
        return
    parameters.append(
        {
            "in": "header",
            "name": name,
            "description": description,
            "schema": {"type": "string"},
            "example": '"42-9f3c1a2b"',
            **({"required": True} if required else {}),
        }
    )

"""The OpenAPI schema that drf-spectacular makes of guarded views."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("drf_spectacular", reason="pip install drf-spectacular")

from drf_spectacular.generators import SchemaGenerator  # noqa: E402
from drf_spectacular.validation import validate_schema  # noqa: E402
from rest_framework import routers  # noqa: E402
from rest_framework.authentication import SessionAuthentication  # noqa: E402

from occ.rest_framework.openapi import AutoSchema  # noqa: E402

from .api import (  # noqa: E402
    BookViewSet,
    GateViewSet,
    LenientBookViewSet,
    OwnedBookViewSet,
    PlainBookViewSet,
    RetryingBookViewSet,
)


class SessionBookViewSet(BookViewSet):
    authentication_classes = (SessionAuthentication,)


class CreatingBookViewSet(BookViewSet):
    occ_put_creates = True


@pytest.fixture
def schema(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from rest_framework.views import APIView

    monkeypatch.setattr(APIView, "schema", AutoSchema())
    router = routers.SimpleRouter()
    router.register("books", BookViewSet, "books")
    router.register("lenient", LenientBookViewSet, "lenient")
    router.register("retrying", RetryingBookViewSet, "retrying")
    router.register("plain", PlainBookViewSet, "plain")
    router.register("gates", GateViewSet, "gates")
    router.register("owned", OwnedBookViewSet, "owned")
    router.register("session", SessionBookViewSet, "session")
    router.register("creating", CreatingBookViewSet, "creating")
    schema: dict[str, Any] = SchemaGenerator(patterns=router.urls).get_schema(request=None, public=True)
    validate_schema(schema)
    return schema


def answers(operation: dict[str, Any]) -> list[str]:
    return sorted(operation["responses"])


def headers(operation: dict[str, Any]) -> dict[str, bool]:
    return {
        each["name"]: each.get("required", False) for each in operation.get("parameters", []) if each["in"] == "header"
    }


def test_reads_and_writes_of_a_row_document_tags_and_refusals(schema: dict[str, Any]) -> None:
    row = schema["paths"]["/books/{id}/"]

    assert {method: answers(operation) for method, operation in row.items()} == {
        "get": ["200", "304", "400", "404", "406", "412"],
        "put": ["200", "400", "404", "406", "409", "412", "415", "428"],
        "patch": ["200", "400", "404", "406", "409", "412", "415", "428"],
        "delete": ["204", "400", "404", "406", "409", "412", "428"],
    }
    assert {method: headers(operation) for method, operation in row.items()} == {
        "get": {"If-None-Match": False, "If-Match": False},
        "put": {"If-Match": False},
        "patch": {"If-Match": False},
        "delete": {"If-Match": True},
    }
    assert ["ETag" in row[method]["responses"]["200"]["headers"] for method in ("get", "put", "patch")] == [True] * 3


def test_lists_have_no_tag_and_creation_has_one(schema: dict[str, Any]) -> None:
    collection = schema["paths"]["/books/"]

    assert (answers(collection["get"]), headers(collection["get"])) == (["200", "404", "406"], {})
    assert answers(collection["post"]) == ["201", "400", "406", "409", "415"]
    assert "ETag" in collection["post"]["responses"]["201"]["headers"]


def test_actions_document_what_they_demand(schema: dict[str, Any]) -> None:
    guarded = schema["paths"]["/books/{id}/sell/"]["post"]
    unguarded = schema["paths"]["/books/{id}/praise/"]["post"]

    assert {"409", "428"} <= set(answers(guarded))
    assert (answers(unguarded), headers(unguarded)) == (["200", "404", "406", "415"], {})


def test_where_no_version_is_required_there_is_no_428(schema: dict[str, Any]) -> None:
    lenient, retrying = (schema["paths"][f"/{name}/{{id}}/"] for name in ("lenient", "retrying"))

    found = {
        (name, method): "428" in answers(row[method])
        for name, row in (("lenient", lenient), ("retrying", retrying))
        for method in ("put", "patch", "delete")
    }

    assert [key for key, has in found.items() if has] == [("retrying", "put"), ("retrying", "delete")]


def test_views_without_the_mixin_are_left_alone(schema: dict[str, Any]) -> None:
    assert answers(schema["paths"]["/plain/{id}/"]["put"]) == ["200"]


def test_applies_are_documented_with_their_type_and_query(schema: dict[str, Any]) -> None:
    row = schema["paths"]["/gates/{id}/"]

    operation = row["patch"]

    queries = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    assert queries == ["fieldManager", "force", "dryRun"]
    assert "application/apply-patch+json" in operation["requestBody"]["content"]
    assert "application/apply-patch+json" not in row["put"]["requestBody"]["content"]
    assert headers(operation) == {"If-Match": False}
    assert answers(operation) == ["200", "400", "404", "406", "409", "412", "415", "428"]


@pytest.mark.parametrize(
    ("view", "refused_early"),
    [
        ("books", []),
        ("owned", ["401", "403", "429"]),  # Basic authentication, permissions and throttles
        ("session", ["403"]),  # of a foreign CSRF token, though everybody may
        ("plain", []),
    ],
)
def test_answers_of_authentication_permissions_and_throttles_are_documented_where_a_view_has_these(
    schema: dict[str, Any], view: str, refused_early: list[str]
) -> None:
    paths = [schema["paths"][f"/{view}/"], schema["paths"][f"/{view}/{{id}}/"]]

    found = [
        [code for code in answers(operation) if code in ("401", "403", "429")]
        for path in paths
        for operation in path.values()
    ]

    assert found == [refused_early] * 6


def test_a_put_that_may_create_documents_that_with_the_tag(schema: dict[str, Any]) -> None:
    put = schema["paths"]["/creating/{id}/"]["put"]

    assert put["responses"]["201"]["content"] == put["responses"]["200"]["content"]
    assert "ETag" in put["responses"]["201"]["headers"]
    assert "201" not in answers(schema["paths"]["/books/{id}/"]["put"])


def test_a_refused_body_may_name_its_fields_and_other_refusals_have_one_form(schema: dict[str, Any]) -> None:
    responses = schema["paths"]["/books/{id}/"]["put"]["responses"]
    refusal = {"$ref": "#/components/schemas/Refusal"}

    forms = {code: responses[code]["content"]["application/json"]["schema"] for code in ("400", "404", "409", "428")}

    assert forms == {
        "400": {"anyOf": [refusal, {"type": "object", "additionalProperties": {}}]},
        "404": refusal,
        "409": refusal,
        "428": refusal,
    }

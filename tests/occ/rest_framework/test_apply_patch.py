"""Applies over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIRequestFactory, force_authenticate

from tests.library.models import Gate

from .api import GateViewSet

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.occ.rest_framework.api")]

VIEWS = pytest.mark.parametrize("view", ["gates", "reversed-gates", "bare-gates"])


def patch(path: str, body: Any, content_type: str = "application/apply-patch+json", **headers: str) -> Any:
    return Client().patch(path, body, content_type=content_type, headers={"accept": "application/json", **headers})


@pytest.fixture
def gate() -> Gate:
    gate = Gate.objects.create()
    return Gate.objects.apply(gate.pk, {"replicas": 5, "size": 7}, manager="hpa")


@VIEWS
def test_a_manager_applies_without_a_version_and_gets_the_new_tag(gate: Gate, view: str):
    answer = patch(f"/{view}/{gate.pk}/?fieldManager=kubectl", {"name": "east", "price": "2.50"})

    assert answer.status_code == 200
    assert (answer.json()["name"], answer.json()["price"], answer.json()["version"]) == ("east", "2.50", 3)
    assert ("ETag" in answer) == (view != "bare-gates")
    gate.refresh_from_db()
    assert gate.managed_fields["name"] == {"at": 3, "apply": ["kubectl"]}
    if "ETag" in answer:
        tag = Client().get(f"/{view}/{gate.pk}/", headers={"accept": "application/json"})["ETag"]
        assert answer["ETag"] == tag


@VIEWS
def test_a_conflict_is_409_with_all_of_it_listed(gate: Gate, view: str):
    answer = patch(f"/{view}/{gate.pk}/?fieldManager=vpa", {"load": 8, "replicas": 6, "name": "x"})

    assert (answer.status_code, answer.json()) == (
        409,
        {
            "detail": f"Nothing was written: of gate {gate.pk} the fields replicas, load are managed by hpa. Leave "
            "them out, send the values that they have to share them, or take them with force=true.",
            "code": "field_conflict",
            "conflicts": [
                {"field": "replicas", "manager": "hpa", "value": 5},
                {"field": "load", "manager": "hpa", "value": 7},
            ],
        },
    )
    assert Gate.objects.values_list("name", "version").get() == ("", 2)


def test_force_takes_what_is_contested(gate: Gate):
    answer = patch(f"/gates/{gate.pk}/?fieldManager=vpa&force=true", {"replicas": 6})

    assert (answer.status_code, answer.json()["replicas"]) == (200, 6)
    assert Gate.objects.get().managed_fields["replicas"] == {"at": 3, "apply": ["vpa"]}


@VIEWS
def test_a_dry_run_shows_what_would_be_and_writes_nothing(gate: Gate, view: str):
    answer = patch(f"/{view}/{gate.pk}/?fieldManager=vpa&dryRun=All", {"name": "x"})
    refused = patch(f"/{view}/{gate.pk}/?fieldManager=vpa&dryRun=All", {"replicas": 6})

    assert (answer.status_code, answer.json()["name"], "ETag" in answer) == (200, "x", False)
    assert refused.status_code == 409
    assert Gate.objects.values_list("name", "version").get() == ("", 2)


def test_applying_what_is_so_already_keeps_the_tag(gate: Gate):
    before = Client().get(f"/gates/{gate.pk}/", headers={"accept": "application/json"})["ETag"]

    answer = patch(f"/gates/{gate.pk}/?fieldManager=hpa", {"replicas": 5, "load": 7})

    assert (answer.status_code, answer["ETag"]) == (200, before)


@pytest.mark.parametrize(
    ("query", "body", "named"),
    [
        ("", {"replicas": 6}, ["fieldManager"]),
        ("fieldManager=%0A", {"replicas": 6}, ["fieldManager"]),
        ("fieldManager=a&force=yes&dryRun=maybe", {"replicas": 6}, ["dryRun", "force"]),
        ("fieldManager=a", {"nope": 1, "id": 2, "version": 3, "size": 4}, ["id", "nope", "size", "version"]),
        ("fieldManager=a", {"replicas": "many", "price": "x"}, ["price", "replicas"]),
        ("fieldManager=a", {"tags": []}, None),
        ("fieldManager=a", [], ["non_field_errors"]),
        ("fieldManager=a", "{", ["detail"]),
    ],
)
def test_what_cannot_be_applied_is_400_and_named(gate: Gate, query: str, body: Any, named: list[str] | None):
    answer = patch(f"/gates/{gate.pk}/?{query}", body)

    assert answer.status_code == 400
    assert named is None or sorted(answer.json()) == named
    assert Gate.objects.get().version == 2


def test_a_body_that_got_lost_gives_nothing_up(gate: Gate):
    path, kind = f"/gates/{gate.pk}/?fieldManager=hpa", "application/apply-patch+json"

    lost = Client().generic("PATCH", path, headers={"accept": "application/json"}, CONTENT_TYPE=kind)
    meant = patch(path, {})

    assert (lost.status_code, lost.json()) == (
        400,
        {"detail": "The body is empty. Send the fields to apply, or {} to give up all that you manage."},
    )
    assert (meant.status_code, meant.json()["replicas"]) == (200, 1)


def test_preconditions_are_refused_but_a_star_and_an_empty_one(gate: Gate):
    url = f"/gates/{gate.pk}/?fieldManager=hpa"
    headers = [
        {"if-match": '"2-abc"'},
        {"if-match": "*, *"},
        {"if-none-match": "*"},
        {"if-none-match": '"q"'},
        {"if-match": "*"},
        {"if-match": " , ", "if-none-match": ""},
    ]

    answers = [patch(url, {"load": 8}, **each) for each in headers]

    assert [answer.status_code for answer in answers] == [400, 400, 400, 400, 200, 200]
    assert [list(answer.json()) for answer in answers[:4]] == [["If-Match"]] * 2 + [["If-None-Match"]] * 2


@VIEWS
def test_a_body_nested_too_deeply_is_400(gate: Gate, view: str):
    body = f'{{"spec": {"[" * 100_000}{"]" * 100_000}}}'

    answer = patch(f"/{view}/{gate.pk}/?fieldManager=hpa", body)

    assert (answer.status_code, answer.json()) == (400, {"detail": "The body is nested too deeply."})


@VIEWS
def test_other_patches_are_as_they_were(gate: Gate, view: str):
    answer = patch(f"/{view}/{gate.pk}/", {"replicas": 6}, "application/json")

    assert answer.status_code == (200 if view == "bare-gates" else 428)


def test_a_row_that_is_not_there_is_404():
    answers = [patch("/gates/7/?fieldManager=hpa", {"replicas": 6}), patch("/gates/7/", "{", **{"if-match": '"9"'})]

    assert [answer.status_code for answer in answers] == [404, 404]


@VIEWS
def test_the_type_is_told_by_options_and_by_415(gate: Gate, view: str):
    types = "application/json, application/x-www-form-urlencoded, multipart/form-data, application/apply-patch+json"

    told = Client().options(f"/{view}/{gate.pk}/")
    refused = patch(f"/{view}/{gate.pk}/", "x", "text/plain")

    assert (told.status_code, told["Accept-Patch"]) == (200, types)
    assert (refused.status_code, refused["Accept-Patch"]) == (415, types)
    assert Client().put(f"/{view}/{gate.pk}/", "{}", "application/apply-patch+json").status_code == 415


def test_a_signed_in_user_who_saves_takes_what_was_changed(gate: Gate, django_user_model):
    user = django_user_model.objects.create(username="ann")
    request = APIRequestFactory().patch("/", {"replicas": 6, "load": 7}, format="json", headers={"if-match": "*"})
    force_authenticate(request, user)

    answer = GateViewSet.as_view({"patch": "partial_update"})(request, pk=gate.pk)

    assert answer.status_code == 200
    assert Gate.objects.get().managed_fields == {
        "replicas": {"at": 3, "update": f"user:{user.pk}"},
        "size": {"at": 2, "apply": ["hpa"]},
    }

"""The OpenAPI schema of the fleet's API against the API: schemathesis makes the requests and judges the answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("drf_spectacular", reason="pip install drf-spectacular")
schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.core.signals import request_finished, request_started  # noqa: E402
from django.db import close_old_connections, transaction  # noqa: E402
from drf_spectacular.generators import SchemaGenerator  # noqa: E402
from drf_spectacular.validation import validate_schema  # noqa: E402
from hypothesis import HealthCheck, assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.generation.feedback import FeedbackSources  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from project.deployments.models import Deployment, UnguardedDeployment  # noqa: E402

pytestmark = pytest.mark.django_db

COLLECTION, ROW = "/api/deployments/", "/api/deployments/{name}/"
UNGUARDED_COLLECTION, UNGUARDED_ROW = "/api/unguarded-deployments/", "/api/unguarded-deployments/{name}/"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Refusals of views without the mixin are DRF's, and drf-spectacular leaves them out of its schema.
CHECKS_OF_UNGUARDED = [not_a_server_error, response_schema_conformance]

# The same requests in every run, each on the rows as the test has made them. Nothing is kept of earlier runs.
same_requests = settings(
    derandomize=True, database=None, max_examples=100, deadline=None, suppress_health_check=list(HealthCheck)
)


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()


@pytest.fixture(scope="module")
def api() -> Any:
    document = SchemaGenerator().get_schema(request=None, public=True)
    validate_schema(document)
    schema = schemathesis.openapi.from_dict(document)
    schema.app = WSGIHandler()
    return schema


@pytest.fixture(autouse=True)
def rows(db: None) -> None:
    get_user_model().objects.create_superuser("ann", password="right")
    for model in (Deployment, UnguardedDeployment):
        for name in ("cart", "mail"):
            model.objects.create(name=name, image=f"{name}:1")


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """Let requests run in the test's transaction, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def requests_for(operation: Any, headers: dict[str, str] | None = None) -> st.SearchStrategy[Any]:
    """Return a strategy for requests, valid or not, but for ``headers``, which all of them have."""
    modes = (GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    # Else it would take constants from whatever code is loaded, and other tests would change the requests.
    feedback = FeedbackSources()
    return st.one_of([operation.as_strategy(mode, headers=headers, feedback=feedback) for mode in modes])


def tag_of_cart(api: Any) -> str:
    read = api[ROW]["GET"].Case(path_parameters={"name": "cart"})
    tag: str = read.call(headers={"Authorization": basic("right")}).headers["etag"][0]
    return tag


def ask(case: Any, data: st.DataObject, checks: list[Any]) -> int:
    """Send ``case`` with headers that are right most of the time, check the answer and return its status."""
    credentials = data.draw(st.sampled_from([basic("right")] * 6 + [basic("wrong"), ""]))
    accepted = data.draw(st.sampled_from(["*/*"] * 6 + ["application/json", "text/csv"]))
    case.headers.pop("Authorization", None)
    answer = case.call(headers={"Authorization": credentials, "Accept": accepted})
    case.validate_response(answer, checks=checks)
    status: int = answer.status_code
    return status


def aim_at_row(case: Any, data: st.DataObject) -> None:
    """Put the name of a row that is there into most addresses."""
    # Addresses with these are no view's, and what Django says of them is HTML.
    assume(not set("./") & set(str(case.path_parameters["name"])))
    if data.draw(st.sampled_from([True, True, True, False])):
        case.path_parameters["name"] = "cart"


TAGS = st.sampled_from(["live", "live", "stale", "stale", "none", "none", "generated"])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("GET", {("live", 200), ("stale", 412), ("none", 200)}),
        ("PUT", {("live", 200), ("stale", 409), ("none", 428)}),
        ("PATCH", {("live", 200), ("stale", 409), ("none", 428)}),
        ("DELETE", {("live", 204), ("stale", 409), ("none", 428)}),
    ],
)
def test_a_guarded_row_gives_only_answers_that_the_schema_has(
    api: Any, method: str, expected: set[tuple[str, int]]
) -> None:
    any_tag = requests_for(api[ROW][method])
    tag_as_read = requests_for(api[ROW][method], {"If-Match": tag_of_cart(api)})
    seen = set()

    @same_requests
    @given(data=st.data(), tag=TAGS)
    def check(data: st.DataObject, tag: str) -> None:
        case = data.draw(tag_as_read if tag in ("live", "stale") else any_tag)
        aim_at_row(case, data)
        if tag == "none":
            case.headers.pop("If-Match", None)
        with transaction.atomic():
            if tag == "stale":
                Deployment.objects.get(name="cart").touch()
            seen.add((tag, ask(case, data, CHECKS)))
            transaction.set_rollback(True)

    check()

    assert expected <= seen
    assert not {("stale", 200), ("stale", 204), ("live", 409), ("live", 412), ("live", 428)} & seen


@pytest.mark.parametrize(("method", "expected"), [("GET", {200, 401}), ("POST", {201, 400, 401})], ids=["GET", "POST"])
def test_the_guarded_collection_gives_only_answers_that_the_schema_has(
    api: Any, method: str, expected: set[int]
) -> None:
    requests = requests_for(api[COLLECTION][method])
    seen = set()

    @same_requests
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        with transaction.atomic():
            seen.add(ask(data.draw(requests), data, CHECKS))
            transaction.set_rollback(True)

    check()

    assert expected <= seen


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST"])
def test_the_unguarded_fleet_never_answers_5xx(api: Any, method: str) -> None:
    requests = requests_for(api[UNGUARDED_COLLECTION if method == "POST" else UNGUARDED_ROW][method])
    seen = set()

    @same_requests
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(requests)
        if method != "POST":
            aim_at_row(case, data)
        with transaction.atomic():
            seen.add(ask(case, data, CHECKS_OF_UNGUARDED))
            transaction.set_rollback(True)

    check()

    assert seen & {200, 201, 204}

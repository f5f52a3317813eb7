"""The fleet's API, as a client of the project meets it."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from project.deployments.models import Deployment, UnguardedDeployment

pytestmark = pytest.mark.django_db

CART = "/api/deployments/cart/"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("ann"))
    return client


@pytest.fixture
def cart() -> Deployment:
    created: Deployment = Deployment.objects.create(name="cart", image="cart:1", replicas=3)
    return created


def put(client: Client, path: str, body: dict[str, Any], **headers: str) -> Any:
    return client.put(path, body, content_type="application/json", headers=headers)


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth > 1 else {"a": 1}


def test_json_may_be_as_deep_as_every_database_takes(client: Client, cart: Deployment) -> None:
    read = client.get(CART)

    written = put(client, CART, {**read.json(), "template": nested(30)}, if_match=read["ETag"])

    assert (written.status_code, written.json()["template"]) == (200, nested(30))


def test_get_then_put_with_its_etag_is_accepted_and_one_version_later(client: Client, cart: Deployment) -> None:
    read = client.get(CART)

    written = put(client, CART, {**read.json(), "replicas": 5}, if_match=read["ETag"])

    cart.refresh_from_db()
    assert written.status_code == 200
    assert (written.json()["version"], written.json()["replicas"]) == (2, 5)
    assert (cart.version, cart.replicas) == (2, 5)


def test_the_second_of_two_clients_with_the_same_etag_is_refused(client: Client, cart: Deployment) -> None:
    read = client.get(CART)
    put(client, CART, {**read.json(), "replicas": 5}, if_match=read["ETag"])

    refused = put(client, CART, {**read.json(), "image": "cart:2"}, if_match=read["ETag"])

    cart.refresh_from_db()
    assert refused.status_code == 409
    assert refused.json()["current_version"] == 2
    assert (cart.replicas, cart.image) == (5, "cart:1")


def test_without_a_version_nothing_is_written(client: Client, cart: Deployment) -> None:
    body = client.get(CART).json()
    del body["version"]

    assert put(client, CART, {**body, "replicas": 5}).status_code == 428


def test_the_status_is_the_controllers_to_write(client: Client, cart: Deployment) -> None:
    read = client.get(CART)
    claim = {"template_hash": "mine", "ready_replicas": 99, "revision": 9, "replicas": 4}

    written = put(client, CART, {**read.json(), **claim}, if_match=read["ETag"])

    assert written.status_code == 200
    cart.refresh_from_db()
    assert (cart.replicas, cart.template_hash, cart.ready_replicas, cart.revision) == (4, "", 0, 0)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"min_replicas": 9, "max_replicas": 8}, "max_replicas"),
        ({"max_replicas": 0}, "max_replicas"),
        ({"target_load": 0}, "target_load"),
        ({"template": ["not", "an", "object"]}, "template"),
        ({"annotations": 7}, "annotations"),
        ({"annotations": {"deep": [{"a": "\0"}]}}, "annotations"),
        ({"annotations": {"\0": 1}}, "annotations"),
        ({"template": {"a": "\ud800"}}, "template"),
        ({"template": nested(31)}, "template"),
    ],
)
def test_what_no_deployment_can_be_is_refused_with_its_field(
    client: Client, cart: Deployment, wrong: dict[str, Any], field: str
) -> None:
    read = client.get(CART)

    refused = put(client, CART, {**read.json(), **wrong}, if_match=read["ETag"])

    assert refused.status_code == 400
    assert list(refused.json()) == [field]


def test_a_limit_sent_alone_is_held_against_the_other_one_in_the_row(client: Client, cart: Deployment) -> None:
    tag = client.get(CART)["ETag"]

    refused = client.patch(CART, {"min_replicas": 11}, content_type="application/json", headers={"if-match": tag})

    assert refused.status_code == 400


def test_the_unguarded_fleet_takes_every_write_the_stale_ones_too(client: Client) -> None:
    UnguardedDeployment.objects.create(name="cart", image="cart:1", replicas=3)
    path = "/api/unguarded-deployments/cart/"
    read = client.get(path).json()
    put(client, path, {**read, "replicas": 5})

    accepted = put(client, path, {**read, "image": "cart:2"})

    row = UnguardedDeployment.objects.get(name="cart")
    assert accepted.status_code == 200
    assert (row.replicas, row.image) == (3, "cart:2")


def test_nobody_writes_without_a_login(cart: Deployment) -> None:
    answer = put(Client(), CART, {"replicas": 5}, if_match='"1"')

    assert answer.status_code == 401


def test_the_fleets_page_shows_every_deployment_to_everybody(cart: Deployment) -> None:
    page = Client().get("/")

    assert page.status_code == 200
    assert "cart:1" in page.text if hasattr(page, "text") else b"cart:1" in page.content


def test_the_fleets_page_says_how_to_fill_it() -> None:
    page = Client().get("/")

    assert b"manage.py loaddata fleet" in page.content

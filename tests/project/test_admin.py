"""The fleet's admin: a stale form is no lost update."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from project.deployments.demo.writers.forms import forms_of
from project.deployments.models import Deployment, JournalEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("ann"))
    return client


def test_a_stale_form_comes_back_and_saves_both_changes(client: Client) -> None:
    cart = Deployment.objects.create(name="cart", image="cart:1", replicas=3)
    path = f"/admin/deployments/deployment/{cart.pk}/change/"
    (form,) = (form for form in forms_of(client.get(path).content.decode()) if "notes" in form.values)
    Deployment.objects.mutate(cart.pk, lambda d: setattr(d, "replicas", 5))

    stale = client.post(path, {**form.values, "notes": "typed", "_save": "Save"})
    (again,) = (form for form in forms_of(stale.content.decode()) if "notes" in form.values)
    saved = client.post(path, {**again.values, "_save": "Save"})

    cart.refresh_from_db()
    assert (stale.status_code, again.values["notes"], saved.status_code) == (409, "typed", 302)
    assert (cart.replicas, cart.notes, cart.version) == (5, "typed", 3)


def test_the_journal_can_be_read_and_not_written(client: Client) -> None:
    entry = JournalEntry.objects.create(fleet="guarded", deployment_pk=1, writer="Rollout", version=2)

    listed = client.get("/admin/deployments/journalentry/")
    added = client.get("/admin/deployments/journalentry/add/")
    changed = client.post(f"/admin/deployments/journalentry/{entry.pk}/change/", {"writer": "me"})

    assert (listed.status_code, added.status_code, changed.status_code) == (200, 403, 403)


@pytest.mark.parametrize("model", ["deployment", "unguardeddeployment"])
def test_the_lists_and_forms_open(client: Client, model: str) -> None:
    assert client.get(f"/admin/deployments/{model}/").status_code == 200
    assert client.get(f"/admin/deployments/{model}/add/").status_code == 200

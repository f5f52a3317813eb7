"""Who manages a field, in the admin: shown at the field, taken by who saves."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings
from django.urls import reverse

import occ
from tests.library.models import Gate
from tests.occ.admin.editors import Editor


@pytest.fixture
def gate(db: None) -> Gate:
    gate = Gate.objects.create()
    Gate.objects.apply(gate.pk, {"replicas": 5, "size": 4}, manager="<b>hpa</b>")
    return Gate.objects.apply(gate.pk, {"replicas": 5}, manager="vpa")


def managed(name: str) -> object:
    return Gate.objects.get().managed_fields.get(name)


def test_the_form_tells_who_manages_a_field_escaped_and_without_a_query(ann: Editor, gate: Gate):
    ann.open(gate)
    with CaptureQueriesContext(connection) as queries:
        page = ann.open(gate)

    html = page.response.content.decode()
    assert '<span class="occ-managers">Managed by &lt;b&gt;hpa&lt;/b&gt; and vpa.</span>' in html
    assert html.count("Managed by") == 2  # at the field, and at the one that is only shown
    assert "<b>hpa" not in html
    Gate.objects.update(managed_fields={})
    with CaptureQueriesContext(connection) as without:
        assert "Managed by" not in ann.open(gate).response.content.decode()
    assert len(queries) == len(without)


def test_it_tells_on_a_conflict_page_too(ann: Editor, gate: Gate):
    ann.open(gate)
    with occ.field_manager("cron"):
        Gate.objects.update(replicas=9)

    page = ann.submit(replicas="7")

    assert page.response.status_code == 409
    assert "Managed by cron." in page.response.content.decode()


def test_who_saves_takes_what_was_changed(ann: Editor, gate: Gate):
    ann.open(gate)

    ann.submit(name="east", follow=True)

    user = User.objects.get(username="ann")
    assert managed("name") == {"at": 4, "update": f"user:{user.pk}"}
    assert managed("replicas") == {"at": 3, "apply": ["<b>hpa</b>", "vpa"]}


def test_who_edits_a_list_takes_what_was_changed(ann: Editor, gate: Gate):
    ann.open_list(Gate)

    ann.submit("_save", **{"form-0-replicas": "8"}, follow=True)

    user = User.objects.get(username="ann")
    assert managed("replicas") == {"at": 4, "update": f"user:{user.pk}"}


def test_a_new_object_belongs_to_who_adds_it(ann: Editor):
    ann.url = reverse("admin:library_gate_add", current_app="editors")

    ann.client.post(ann.url, {"name": "west", "replicas": "1", "image": ""})

    assert Gate.objects.get().managed_fields == {"name": {"at": 1, "update": f"user:{ann.user.pk}"}}


def test_it_is_told_in_german(ann: Editor, gate: Gate):
    with override_settings(LANGUAGE_CODE="de"):
        page = ann.open(gate)

    assert "Verwaltet von &lt;b&gt;hpa&lt;/b&gt; und vpa." in page.response.content.decode()

"""Work items in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import RequestFactory

import reconcilers
from reconcilers import Reconciler
from reconcilers.admin import WorkItemAdmin
from reconcilers.models import WorkItem
from reconcilers.registry import get
from reconcilers.workqueue import steps
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db


@pytest.fixture
def view() -> WorkItemAdmin:
    return WorkItemAdmin(WorkItem, admin.AdminSite())


@pytest.fixture
def idle(register: Register) -> type[Reconciler]:
    return register(type("Idle", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))


@pytest.fixture
def request_of(rf: RequestFactory) -> Any:
    request = rf.post("/")
    request.user = User.objects.create_superuser("ada")
    from django.contrib.messages.storage.fallback import FallbackStorage

    request.session = {}
    request._messages = FallbackStorage(request)
    return request


def told(request: Any) -> list[str]:
    return [str(message) for message in get_messages(request)]


def test_requeue_runs_a_parked_item_and_keeps_or_forgets_its_attempts(
    view: WorkItemAdmin, idle: type[Reconciler], request_of: Any
) -> None:
    for key in ("1", "2"):
        reconcilers.enqueue(idle, key)
        claim = steps.claim(get(idle), key, using="default")
        assert claim is not None
        steps.park(claim, delay=300, error="no")

    view.requeue(request_of, WorkItem.objects.filter(key="1"))
    view.requeue_and_reset(request_of, WorkItem.objects.filter(key="2"))

    items = WorkItem.objects.order_by("key").values_list("parked_at", "not_before", "attempts")
    assert list(items) == [(None, None, 1), (None, None, 0)]
    assert told(request_of) == ["Requeued 1 item.", "Requeued 1 item."]
    assert steps.claim(get(idle), "1", using="default") is not None


def test_park_leaves_alone_what_a_worker_holds(view: WorkItemAdmin, idle: type[Reconciler], request_of: Any) -> None:
    for key in ("1", "2"):
        reconcilers.enqueue(idle, key)
    steps.claim(get(idle), "2", using="default")

    view.park(request_of, WorkItem.objects.all())

    parked = WorkItem.objects.exclude(parked_at=None).values_list("key", "last_error")
    assert list(parked) == [("1", "Parked by ada.")]
    assert told(request_of) == [
        "Parked 1 item.",
        "1 item was left alone: it is parked already, or a worker runs it at this moment.",
    ]


def test_the_list_shows_and_filters_states(client: Any, idle: type[Reconciler], request_of: Any) -> None:
    for key in ("1", "2", "3"):
        reconcilers.enqueue(idle, key, delay=60 if key == "3" else None)
    steps.claim(get(idle), "2", using="default")
    client.force_login(request_of.user)

    pages = {
        state: client.get(f"/admin/reconcilers/workitem/?state={state}").content.decode()
        for state in ("due", "running", "waiting", "parked")
    }

    shown = {state: [key for key in ("1", "2", "3") if f"Idle {key}<" in page] for state, page in pages.items()}
    assert shown == {"due": ["1"], "running": ["2"], "waiting": ["3"], "parked": []}


def test_items_can_be_read_but_not_edited_by_hand(client: Any, idle: type[Reconciler], request_of: Any) -> None:
    reconcilers.enqueue(idle, 1)
    item = WorkItem.objects.get()
    client.force_login(request_of.user)
    url = f"/admin/reconcilers/workitem/{item.pk}/change/"

    shown, posted = client.get(url), client.post(url, {"attempts": 7})

    item.refresh_from_db()
    assert (shown.status_code, posted.status_code, item.attempts) == (200, 403, 0)

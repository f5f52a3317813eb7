"""The queue at a glance: what the tiles say, and that saying it costs no more when the queue is long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

import reconcilers
from occ.contention.models import HALF_HOUR, Bucket
from reconcilers import Reconciler
from reconcilers.admin import BoundedPaginator, shown
from reconcilers.models import WorkItem
from reconcilers.registry import get
from reconcilers.workqueue import overview as overviews
from reconcilers.workqueue import steps
from reconcilers.workqueue.overview import Overview, QueueOverview, overview
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db

URL = "/admin/reconcilers/workitem/"


@pytest.fixture
def idle(register: Register) -> type[Reconciler]:
    return register(type("Idle", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))


def of(name: str) -> Overview:
    (found,) = [each for each in overview("default").reconcilers if each.name == name]
    return found


@pytest.fixture
def queue(idle: type[Reconciler]) -> None:
    """Two due, one for ten minutes; one scheduled, one running, one with an ended lease, one parked."""
    for key in ("1", "2", "4", "5", "6"):
        reconcilers.enqueue(idle, key)
    reconcilers.enqueue(idle, "3", delay=600)
    for key in ("4", "5"):
        assert steps.claim(get(idle), key, using="default") is not None
    claim = steps.claim(get(idle), "6", using="default")
    assert claim is not None
    steps.park(claim, delay=1, error="no")
    WorkItem.objects.filter(key="2").update(due_at=timezone.now() - timedelta(minutes=10))
    WorkItem.objects.filter(key="5").update(lease_until=timezone.now() - timedelta(minutes=1))


def test_it_counts_what_waits_runs_and_was_given_up(queue: None) -> None:
    found = of("Idle")

    assert (found.due, found.scheduled, found.running, found.parked) == (3, 1, 1, 1)
    assert found.oldest_due is not None and 600 <= found.oldest_due < 3600


def test_counts_stop_at_the_limit(idle: type[Reconciler], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "LIMIT", 3)
    for key in range(6):
        reconcilers.enqueue(idle, key)

    assert of("Idle").due == 4  # one more than the limit: "3+"


def test_a_long_queue_takes_as_many_queries_as_an_empty_one(
    idle: type[Reconciler], django_assert_num_queries: Any
) -> None:
    reconcilers_there = len(overview("default").reconcilers)
    for key in range(20):
        reconcilers.enqueue(idle, key)

    with django_assert_num_queries(3 + 6 * reconcilers_there):
        overview("default")


def test_the_tiles_say_it_in_words_and_mark_alarms() -> None:
    total = Overview(name="", due=1001, scheduled=412, running=6, parked=3, oldest_due=130.4)

    tiles = shown(QueueOverview(total=total, reconcilers=[], last_sweep=0.4))["tiles"]

    assert [(str(label), value, alarm) for label, value, alarm in tiles] == [
        ("Due now", "1,000+", False),
        ("Scheduled", "412", False),
        ("Running", "6", False),
        ("Oldest due", "2 min 10 s", True),
        ("Parked", "3", True),
        ("Last sweep", "0 s", False),
    ]


def test_the_list_shows_them_above_the_items(client: Client, queue: None) -> None:
    client.force_login(User.objects.create_superuser("root"))

    text = client.get(URL).content.decode()

    assert text.count("<dt>") == 6
    assert "Idle</th><td>3</td><td>1</td><td>1</td>" in text
    assert [f"Idle {key}<" in text for key in range(1, 7)] == [True] * 6


@pytest.mark.parametrize(
    ("permissions", "seen"), [(("view_workitem", "view_bucket"), True), (("view_workitem",), False)]
)
def test_the_chart_is_beside_them_for_who_may_see_it(client: Client, permissions: tuple[str, ...], seen: bool) -> None:
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    start = int(timezone.now().timestamp()) // HALF_HOUR * HALF_HOUR
    Bucket.objects.create(width=HALF_HOUR, start=start, model="m", manager="m", writes=99, conflicts=1)
    client.force_login(user)

    page = client.get(URL, {"window": "7d"})

    assert page.status_code == 200
    assert ("<svg viewBox" in page.content.decode()) is seen


def test_the_list_is_filtered_by_a_reconciler(client: Client, queue: None, register: Register) -> None:
    other = register(type("Other", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))
    reconcilers.enqueue(other, "7")
    client.force_login(User.objects.create_superuser("root"))

    text = client.get(URL, {"reconciler": "Other"}).content.decode()

    assert [f"{name}<" in text for name in ("Other 7", "Idle 1")] == [True, False]


def test_pages_are_counted_to_an_end(idle: type[Reconciler], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcilers.admin.MOST_LISTED", 2)
    for key in range(5):
        reconcilers.enqueue(idle, key)

    assert BoundedPaginator(WorkItem.objects.order_by("pk"), 100).count == 2

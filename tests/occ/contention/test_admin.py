"""The page in the admin: who may see it, what it shows, how many queries it takes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from occ.contention.admin import panel
from occ.contention.models import HALF_HOUR, Bucket

pytestmark = pytest.mark.django_db

URL = "/admin/occ_contention/bucket/"


@pytest.fixture
def contended() -> None:
    now = int(time.time()) // HALF_HOUR * HALF_HOUR
    for slot in range(10):
        Bucket.objects.create(
            width=HALF_HOUR, start=now - slot * HALF_HOUR, model="shop.Order", manager="m", writes=9_500, conflicts=700
        )


def log_in(client: Client, *permissions: str, **options: Any) -> None:
    user = User.objects.create_user("ada", is_staff=True, **options)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)


def test_staff_with_the_permission_see_it(client: Client, contended: None) -> None:
    log_in(client, "view_bucket")

    page = client.get(URL)

    assert page.status_code == 200
    text = page.content.decode()
    assert "<td>95,000</td>" in text and "<td>6.9\u00a0%</td>" in text
    assert "shop.Order was above the 5\u00a0% line" in text
    assert "style=" not in text.split('id="content-main"')[1] and "<script" not in text.split('id="content-main"')[1]


@pytest.mark.parametrize("permissions", [(), ("add_logentry",)])
def test_others_do_not(client: Client, permissions: tuple[str, ...]) -> None:
    log_in(client, *permissions)

    assert client.get(URL).status_code == 403


def test_nobody_adds_changes_or_deletes_counts(client: Client, contended: None) -> None:
    client.force_login(User.objects.create_superuser("root"))
    pk = Bucket.objects.values_list("pk", flat=True)[0]

    answers = [client.get(f"{URL}{view}").status_code for view in ("add/", f"{pk}/delete/")]

    assert answers == [403, 403]


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "1y", ""])
def test_each_window_is_shown_and_a_wrong_one_is_a_day(client: Client, contended: None, window: str) -> None:
    client.force_login(User.objects.create_superuser("root"))

    page = client.get(URL, {"window": window})

    shown = {"1h": "1 h", "7d": "7 d"}.get(window, "24 h")
    assert f'<b aria-current="true">{shown}</b>' in page.content.decode()


def test_a_page_takes_as_many_queries_for_much_as_for_nothing(rf: Any, django_assert_num_queries: Any) -> None:
    request = rf.get("/")
    with django_assert_num_queries(4):
        panel(request)
    Bucket.objects.bulk_create(
        Bucket(width=HALF_HOUR, start=n * HALF_HOUR, model="m", manager="m", writes=1, conflicts=0) for n in range(500)
    )

    with django_assert_num_queries(4):
        panel(request)


def test_it_speaks_german(client: Client, contended: None, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    client.force_login(User.objects.create_superuser("root"))

    text = client.get(URL).content.decode()

    assert "Konfliktrate" in text and "shop.Order lag über der 5\u00a0%-Linie" in text
    assert "<td>95.000</td>" in text and "<td>6,9\u00a0%</td>" in text
    points = text.split('<polyline points="')[1].split('"')[0]
    assert all(point.count(",") == 1 and "." in point for point in points.split())

"""The contention page in Chromium: seen by axe, in the light and in the dark, under a strict policy, without script."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from occ.contention.models import HALF_HOUR, Bucket, Collision
from tests.browser.conftest import Person
from tests.browser.test_looks import findings

MODELS = ("shop.Order", "shop.Book", "crm.Account")


@pytest.fixture(autouse=True)
def default_admin(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.browser.default_site"


@pytest.fixture
def a_day(transactional_db: None) -> None:
    """Counts of three models over a day, one of them above the line in the afternoon."""
    now = int(time.time()) // HALF_HOUR * HALF_HOUR
    for number, model in enumerate(MODELS):
        for slot in range(48):
            wave = 10 + 6 * math.sin(slot / 3 + number) + (70 if number == 0 and 30 <= slot <= 36 else 0)
            Bucket.objects.create(
                width=HALF_HOUR,
                start=now - (47 - slot) * HALF_HOUR,
                model=model,
                manager="checkout",
                writes=20 if number == 1 and slot in (10, 11) else 900,
                conflicts=round(wave),
            )
    Collision.objects.create(
        digest="1", start=now, model="shop.Order", writer="checkout", mine="stock", theirs="price", count=30
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_axe_finds_nothing(person: Callable[..., Person], a_day: None, scheme: str, width: int) -> None:
    ada = person("ada", color_scheme=scheme, viewport={"width": width, "height": 900})

    ada.page.goto(f"{ada.site}/admin/occ_contention/bucket/")

    assert ada.page.locator(".occ-line text").all_text_contents() == ["shop.Order", "shop.Book", "crm.Account"]
    assert findings(ada.page, {"include": [["#content"]]}) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_queue_at_a_glance(person: Callable[..., Person], a_day: None, scheme: str) -> None:
    ada = person("ada", color_scheme=scheme, viewport={"width": 1200, "height": 900})

    ada.page.goto(f"{ada.site}/admin/reconcilers/workitem/")

    assert ada.page.locator(".occ-tiles dt").count() == 6
    assert findings(ada.page, {"include": [[".occ-tiles"], [".occ-numbers"], [".occ-contention"]]}) == []


def test_it_needs_no_script(person: Callable[..., Person], a_day: None) -> None:
    ada = person("ada", java_script_enabled=False)

    ada.page.goto(f"{ada.site}/admin/occ_contention/bucket/")
    with ada.page.expect_navigation():
        ada.page.get_by_role("link", name="7 d").click()

    assert ada.page.locator(".occ-windows b").inner_text() == "7 d"
    assert ada.page.locator(".occ-chart svg polyline").count() >= 3
    assert ada.page.locator(".occ-advice").count() == 1


def test_no_label_covers_another(person: Callable[..., Person], a_day: None) -> None:
    ada = person("ada")

    ada.page.goto(f"{ada.site}/admin/occ_contention/bucket/")

    boxes = ada.page.evaluate("""() => [...document.querySelectorAll('.occ-line text')]
        .map(text => text.getBoundingClientRect()).map(box => [box.top, box.bottom]).sort((a, b) => a[0] - b[0])""")
    gaps = [after[0] - before[1] for before, after in zip(boxes, boxes[1:], strict=False)]
    assert len(boxes) == 3
    assert all(gap > -4 for gap in gaps), gaps  # a line's box is a little taller than its letters

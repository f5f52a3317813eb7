"""The report: rates, the worst slot, the line, and the advice that follows from what collided."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from occ.contention import report as reporting
from occ.contention.models import HALF_HOUR, MINUTE, Bucket, Collision
from occ.contention.report import WINDOWS, Slot, WriterCounts, report
from tests.kit.processes import Processes

from .conftest import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting.time, "time", lambda: NOON + 30)


def count(minutes_ago: int, writes: int, conflicts: int, model: str = "shop.Order", **writer: str) -> None:
    Bucket.objects.create(
        width=MINUTE,
        start=int(NOON) - 60 * minutes_ago,
        model=model,
        reconciler=writer.get("reconciler", ""),
        manager=writer.get("manager", "unknown"),
        writes=writes,
        conflicts=conflicts,
    )


def collide(mine: str, theirs: str, times: int, writer: str = "checkout") -> None:
    Collision.objects.create(
        digest=f"{writer}{mine}{theirs}",
        start=NOON,
        model="shop.Order",
        writer=writer,
        mine=mine,
        theirs=theirs,
        count=times,
    )


def printed(*arguments: str) -> str:
    output = StringIO()
    call_command("contention", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def test_a_model_is_summed_up_over_the_window() -> None:
    count(70, 1000, 1000)  # before the window
    count(30, 60, 20, manager="billing")
    count(29, 100, 0)
    count(10, 10, 10, manager="billing")  # too few for a rate
    count(5, 10, 0, model="shop.Book")

    order, book = report(WINDOWS["1h"])

    worst = order.worst
    assert worst == Slot(start=int(NOON) - 1800, writes=160, conflicts=20)
    assert (order.model, order.writes, order.conflicts, round(order.rate, 3)) == ("shop.Order", 170, 30, 0.15)
    assert (order.attempts_per_success, order.above_line, order.crossed, order.advice) == (
        200 / 170,
        False,
        False,
        None,
    )
    assert order.writers == [
        WriterCounts(reconciler="", manager="billing", writes=70, conflicts=30),
        WriterCounts(reconciler="", manager="unknown", writes=100, conflicts=0),
    ]
    assert (book.model, book.rate, book.worst) == ("shop.Book", 0.0, None)


def test_a_day_is_read_from_half_hours() -> None:
    for half_hours in (0, 47, 60):
        Bucket.objects.create(
            width=HALF_HOUR, start=NOON - HALF_HOUR * half_hours, model="shop.Order", manager="m", writes=1, conflicts=0
        )

    (order,) = report(WINDOWS["24h"])

    assert (order.writes, len(order.slots)) == (2, 48)


@pytest.mark.parametrize(
    ("writes", "conflicts", "above"),
    [(190, 10, False), (189, 11, True), (179, 20, False), (150, 50, True)],
    ids=["at the line", "above it", "too few samples", "far above"],
)
def test_the_line_takes_five_percent_of_at_least_200_samples_in_five_minutes(
    writes: int, conflicts: int, above: bool
) -> None:
    count(4, writes - 20, conflicts - 5)
    count(0, 20, 5)
    count(6, 0, 1000, model="shop.Book")  # earlier

    found = {each.model: each.above_line for each in report(WINDOWS["1h"])}

    assert found == {"shop.Order": above, "shop.Book": False}


def test_different_fields_call_for_ownership() -> None:
    count(1, 800, 200, manager="checkout")
    collide("stock", "price", 7)
    collide("stock", "price,stock", 2)

    (order,) = report(WINDOWS["1h"])

    assert order.advice is not None
    assert (order.advice.cure, order.advice.fields, order.advice.disjoint, order.advice.same) == (
        "field ownership",
        ["price", "stock"],
        7,
        2,
    )
    assert order.advice.text == (
        "7 of 9 sampled conflicts were between writers of different fields: checkout changed stock, others had changed "
        "price. Let each writer own its fields: objects.apply(..., manager=...) on a FieldOwnershipModel. "
        "Writers: checkout (200 refused)."
    )


def test_large_numbers_of_refused_writes_are_grouped() -> None:
    count(1, 8000, 1004, manager="checkout")
    collide("stock", "price", 7)

    (order,) = report(WINDOWS["1h"])

    assert order.advice is not None
    assert order.advice.text.endswith(" Writers: checkout (1,004 refused).")


def test_the_same_field_calls_for_the_queue() -> None:
    count(1, 800, 200, reconciler="Autoscaler")
    count(1, 100, 3, manager="user")
    collide("replicas", "notes,replicas", 7, writer="Autoscaler")

    (order,) = report(WINDOWS["1h"])

    assert order.advice is not None
    assert order.advice.cure == "work queue"
    assert order.advice.text == (
        "In 7 of 7 sampled conflicts both sides had changed the same field (replicas). Let one writer do it: record "
        "elsewhere what is wanted, and have a reconciler, one worker per row, write the field. "
        "Writers: Autoscaler (200 refused), user (3 refused)."
    )


def test_without_a_known_base_no_cure_is_claimed() -> None:
    count(1, 800, 200)
    collide("price,stock", "?", 4)

    (order,) = report(WINDOWS["1h"])

    assert order.advice is not None
    assert (order.advice.cure, order.advice.fields, order.advice.unclear) == ("unknown", ["price", "stock"], 4)


def test_the_report_takes_four_queries_whatever_the_tables_hold(django_assert_num_queries: Any) -> None:
    for minute in range(50):
        count(minute, 100, 10, manager=f"m{minute % 7}", model=f"shop.M{minute % 5}")

    with django_assert_num_queries(4):
        report(WINDOWS["1h"])


def test_the_command_prints_a_table_and_what_to_do() -> None:
    count(1, 1900, 100, manager="checkout")
    count(1, 50, 0, model="shop.Book")
    collide("stock", "price", 7)

    lines = printed().splitlines()

    assert [line.split() for line in lines[:3]] == [
        ["model", "writes", "conflicts", "rate", "attempts", "per", "success", "worst", "at"],
        ["shop.Order", "1,900", "100", "5.0", "%", "1.05", "5.0", "%", lines[1].split()[-1]],
        ["shop.Book", "50", "0", "0.0", "%", "1.00", "0.0", "%", lines[2].split()[-1]],
    ]
    assert lines[3:] == ["The last 1 h; worst 5 minutes; line at 5.0 %."]


def test_the_command_names_the_writers_when_asked() -> None:
    count(1, 1000, 100, manager="checkout")
    collide("stock", "price", 7)

    lines = printed("--writers").splitlines()

    assert lines[2].split() == ["checkout", "1,000", "100"]
    assert lines[4].startswith("shop.Order is above the line. 7 of 7 sampled conflicts were between writers of")


def test_the_command_says_when_there_is_nothing() -> None:
    assert printed("--window", "7d") == "No writes were counted in the last 7 d.\n"


def test_json_has_it_all() -> None:
    count(1, 1900, 100, manager="checkout")

    found = json.loads(printed("--json"))

    assert found == {
        "window": 3600,
        "line": 0.05,
        "models": [
            {
                "model": "shop.Order",
                "writes": 1900,
                "conflicts": 100,
                "rate": 0.05,
                "attempts_per_success": 2000 / 1900,
                "worst": {"start": int(NOON) - 300, "writes": 1900, "conflicts": 100, "rate": 0.05},
                "above_line": False,
                "crossed": False,
                "writers": [{"reconciler": "", "manager": "checkout", "writes": 1900, "conflicts": 100}],
                "advice": None,
            }
        ],
    }


def test_check_exits_with_status_1_above_the_line(settings: Any) -> None:
    count(1, 1900, 100)
    printed("--check")
    settings.OCC = {"CONFLICT_WARN": 0.04}

    with pytest.raises(CommandError, match=r"^Above the line of 4.0 %: shop.Order$") as error:
        printed("--check")

    assert error.value.returncode == 1


def test_watch_needs_a_positive_time() -> None:
    with pytest.raises(CommandError, match="seconds above 0"):
        printed("--watch", "0")


def test_without_its_tables_the_command_says_what_to_do(plain_processes: Processes, tmp_path: Path) -> None:
    ran = plain_processes.python("manage.py", "contention", env={"DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"})

    assert ran.wait(timeout=60) == 1
    assert "CommandError: The counts cannot be read (no such table: occ_contention_bucket)" in ran.output
    assert "Is occ.contention migrated?" in ran.output
    assert "Traceback" not in ran.output

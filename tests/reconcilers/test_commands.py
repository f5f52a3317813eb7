"""The commands: what a person types, and what is said when it cannot be done."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from reconcilers import Reconciler, TerminalError
from reconcilers.models import WorkItem
from reconcilers.workqueue import sweep
from reconcilers.workqueue.sql import DatabaseNow
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


def said(*argv: str) -> str:
    output = StringIO()
    call_command(*argv, stdout=output, no_color=True)
    return output.getvalue()


@pytest.fixture
def doubler(register: Register) -> type[Reconciler]:
    @register
    class Doubler(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            if counter.value == 13:
                raise TerminalError("unlucky")
            if counter.value % 2:
                counter.value *= 2

    return Doubler


def test_reconcile_tells_what_it_read_and_wrote(doubler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=3)

    told = said("reconcile", "Doubler", str(counter.pk))

    assert told.splitlines() == [
        f"Read library.Counter {counter.pk} at version 1.",
        "Wrote:",
        "  value: 3 -> 6",
        f"Doubler {counter.pk}: done.",
    ]
    counter.refresh_from_db()
    assert (counter.value, counter.version) == (6, 2)


def test_a_dry_run_tells_and_writes_nothing(doubler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=3)

    told = said("reconcile", "Doubler", str(counter.pk), "--dry-run")

    assert told.splitlines() == [
        f"Read library.Counter {counter.pk} at version 1.",
        "It would write:",
        "  value: 3 -> 6",
        "It returned None.",
    ]
    counter.refresh_from_db()
    assert (counter.value, counter.version) == (3, 1)


def test_what_is_wrong_is_said_in_one_line_with_the_remedy(doubler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=13)

    problems = []
    for argv in (
        ("reconcile", "Nobody", "1"),
        ("reconcile", "Doubler", "forty-two"),
        ("reconcile", "Doubler", "99999"),
        ("reconcile", "Doubler", str(counter.pk)),
        ("runreconcilers", "Nobody"),
        ("runreconcilers", "--database", "nowhere"),
        ("workqueue", "rename", "Old", "Doubler"),
        ("workqueue", "remove", "Old"),
        ("workqueue", "remove", "Doubler"),
    ):
        with pytest.raises(CommandError) as raised:
            said(*argv)
        problems.append(str(raised.value))

    assert problems == [
        "No reconciler is named 'Nobody'; registered are: Doubler. Register it in an installed app's reconcilers.py; "
        "if it was renamed, move its items with 'manage.py workqueue rename OLD NEW'.",
        "Doubler has no key 'forty-two': give the primary key of a library.Counter (id: BigAutoField).",
        "Database 'default' has no library.Counter with the key 99999. Give the primary key of a row; what is left of "
        "one that was deleted is cleaned up by itself.",
        f"Doubler {counter.pk}: parked. TerminalError: unlucky",
        "No reconciler is named 'Nobody'; registered are: Doubler. Register it in an installed app's reconcilers.py; "
        "if it was renamed, move its items with 'manage.py workqueue rename OLD NEW'.",
        "No database has the alias 'nowhere'; DATABASES has: default.",
        "Database 'default' has no items of 'Old'; it has items of: Doubler.",
        "Database 'default' has no items of 'Old'; it has items of: Doubler.",
        "Doubler is registered, and the next scan would make its items again: give the keys to remove, or take its "
        "@register away first.",
    ]


def test_runreconcilers_burst_leaves_nothing_due(doubler: type[Reconciler]) -> None:
    for value in range(30):
        Counter.objects.create(value=value)

    told = said("runreconcilers", "--burst")

    assert told.splitlines() == ["Reconciling Doubler on default.", "44 runs."]
    assert set(Counter.objects.exclude(value=13).values_list("value", flat=True)) == {
        value * 2 if value % 2 else value for value in range(30) if value != 13
    }
    assert WorkItem.objects.filter(lease_until=None, parked_at=None).count() == 29


def test_runreconcilers_once_ends_with_work_left(doubler: type[Reconciler]) -> None:
    for _ in range(5):
        Counter.objects.create(value=2)

    told = said("runreconcilers", "--once", "--batch", "3")

    assert told.splitlines() == ["Reconciling Doubler on default.", "3 runs."]


def test_workqueue_counts_and_checks(doubler: type[Reconciler]) -> None:
    Counter.objects.create(value=2)
    Counter.objects.create(value=13)
    said("runreconcilers", "--burst")
    Counter.objects.create(value=4)

    report = json.loads(said("workqueue", "--json"))
    with pytest.raises(CommandError, match="Doubler: 1 parked"):
        said("workqueue", "--check")

    (counts,) = report["reconcilers"]
    oldest = counts.pop("oldest_due")
    assert 0 <= oldest < 60
    assert counts == {
        "reconciler": "Doubler",
        "database": "default",
        "due": 1,
        "running": 0,
        "failing": 0,
        "waiting": 1,
        "idle": 0,
        "parked": 1,
        "known": True,
    }
    assert said("workqueue", "requeue", "Doubler") == "Requeued 1 item of Doubler on default.\n"
    assert "Doubler       2" in said("workqueue", "--check")


def test_keys_are_requeued_however_they_are_written(doubler: type[Reconciler]) -> None:
    parked = Counter.objects.create(value=13)
    said("runreconcilers", "--burst")

    assert said("workqueue", "requeue", "Doubler", f"0{parked.pk}") == "Requeued 1 item of Doubler on default.\n"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("1000000", "Doubler has no items of these keys on default: 1000000. The next scan makes one for each row"),
        ("x", "Doubler has no key 'x': give the primary key of a library.Counter"),
    ],
)
def test_a_key_that_cannot_be_requeued_is_named(doubler: type[Reconciler], key: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        said("workqueue", "requeue", "Doubler", key)


def items_of(name: str, count: int, **values: Any) -> None:
    WorkItem.objects.bulk_create(
        WorkItem(reconciler=name, key=str(key), request_token=1, created_at=DatabaseNow(), **values)
        for key in range(count)
    )


def test_items_of_a_reconciler_that_is_no_more_are_an_alarm_until_they_are_removed(doubler: type[Reconciler]) -> None:
    sweep(nudge=False)
    items_of("Retired", 1201, due_at=DatabaseNow())
    WorkItem.objects.filter(key="7").update(due_at=None, lease_until=DatabaseNow(3600))

    with pytest.raises(CommandError) as raised:
        said("workqueue", "--check")
    removed = said("workqueue", "remove", "Retired")

    assert str(raised.value) == (
        "1 alarm: Retired: no reconciler of this name is registered, and its items wait. Deploy it again, move them "
        "with 'manage.py workqueue rename Retired NEW', or drop them with 'manage.py workqueue remove Retired'."
    )
    assert removed == "Removed 1200 items of Retired on default.\n"
    assert list(WorkItem.objects.values_list("key", flat=True)) == ["7"]  # a worker of an old deploy holds it


def test_single_keys_of_a_registered_reconciler_are_removed(doubler: type[Reconciler]) -> None:
    items_of("Doubler", 3)

    told = said("workqueue", "remove", "Doubler", "0", "2")

    assert told == "Removed 2 items of Doubler on default.\n"
    assert list(WorkItem.objects.values_list("key", flat=True)) == ["1"]

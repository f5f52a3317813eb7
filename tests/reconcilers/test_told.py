"""What a run tells: its log lines, its announcement, and whom it wakes."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

import occ
import reconcilers
from occ import Backoff
from occ.attribution import running_reconciler
from reconcilers import Reconciler, Result, TerminalError, controller
from reconcilers.controller import Outcome, turn
from reconcilers.models import WorkItem
from reconcilers.signals import reconcile_finished
from reconcilers.workqueue import nudges, steps
from reconcilers.workqueue.sql import DatabaseNow
from tests.library.models import Author, Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db

FIXED = Backoff(base=60, factor=2, cap=300, jitter="none", attempts=None)

Said = tuple[str, str, bool]


@pytest.fixture
def example(register: Register) -> Any:
    """Register a reconciler with the function given, and return it."""

    def make(function: Any, **attributes: Any) -> type[Reconciler]:
        body = {"model": Counter, "resync": None, "backoff": FIXED, "reconcile": function, **attributes}
        return register(type("Example", (Reconciler,), body))

    return make


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """Return what was logged since the last call: level, text, and whether with a traceback."""

    def since() -> list[Said]:
        records = [
            (record.levelname, record.getMessage(), bool(record.exc_info))
            for record in caplog.records
            if record.name == "reconcilers"
        ]
        caplog.clear()
        return records

    caplog.set_level(logging.INFO, "reconcilers")
    return since


@pytest.fixture
def woken(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str] | None]:
    """The keys of each nudge that was sent."""
    settings.RECONCILERS = {"NUDGE": True}
    heard: list[list[str] | None] = []

    def hear(keys: list[nudges.Key] | None, using: str) -> None:
        heard.append(None if keys is None else [key for _, key in keys])

    monkeypatch.setattr(nudges, "_sender", hear)
    return heard


def stale(counter: Counter) -> occ.Conflict:
    return occ.Conflict(model=Counter, pk=counter.pk, expected=1, actual=2)


def test_a_conflict_is_tried_again_in_place_as_often_as_the_reconciler_says(example: Any, said: Any) -> None:
    runs: list[int] = []

    def beaten(self: Any, counter: Counter) -> None:
        runs.append(1)
        raise stale(counter)

    example(beaten, conflict_retries=9)
    counter = Counter.objects.create()
    waits: list[float] = []

    outcome = turn("Example", counter.pk, sleep=waits.append)

    assert (outcome, len(runs), len(waits)) == (Outcome.CONFLICT, 10, 9)
    assert waits[0] <= 0.005 and max(waits) <= 0.05
    told = said()
    assert [level for level, _, _ in told] == ["INFO"] * 10
    assert all(line.startswith(f"Example {counter.pk} met a conflict, reads again: ") for _, line, _ in told[:9])
    assert told[9][1].startswith(f"Example {counter.pk} met conflicts only, runs again in 60.0 s: Conflict: ")


def test_a_failure_is_an_error_with_its_traceback(example: Any, said: Any) -> None:
    def fail(self: Any, counter: Counter) -> None:
        raise RuntimeError("no such host")

    example(fail, max_attempts=2)
    counter = Counter.objects.create()

    first = turn("Example", counter.pk)
    WorkItem.objects.update(due_at=None, not_before=None)
    reconcilers.enqueue("Example", counter.pk)
    second = turn("Example", counter.pk)

    assert (first, second) == (Outcome.FAILED, Outcome.PARKED)
    assert said() == [
        ("ERROR", f"Example {counter.pk} failed, runs again in 60.0 s.", True),
        ("ERROR", f"Example {counter.pk} parked after 2 attempts.", True),
    ]


def test_an_item_keeps_the_error_with_its_notes(example: Any) -> None:
    def fail(self: Any, counter: Counter) -> None:
        error = RuntimeError("no such host")
        error.add_note("Is the cable in?")
        raise error

    example(fail)
    counter = Counter.objects.create()

    turn("Example", counter.pk)

    assert WorkItem.objects.get().last_error == "RuntimeError: no such host\nIs the cable in?"


def test_outcomes_are_told_to_programs_by_these_words() -> None:
    words = ["done", "gone", "conflict", "failed", "parked", "lease_lost", "not_due"]

    assert [outcome.value for outcome in Outcome] == words


def test_an_extended_lease_is_as_long_as_the_first(example: Any) -> None:
    left: list[float] = []

    def work(self: Any, counter: Counter) -> None:
        WorkItem.objects.update(lease_until=DatabaseNow())
        self.extend_lease()
        item = WorkItem.objects.annotate(now=DatabaseNow()).get()
        left.append((item.lease_until - item.now).total_seconds())

    example(work, atomic=False, lease=dt.timedelta(hours=7))
    counter = Counter.objects.create()

    turn("Example", counter.pk)

    assert 7 * 3600 - 60 < left[0] <= 7 * 3600


def test_giving_up_is_a_warning_that_says_why(example: Any, said: Any) -> None:
    def refuse(self: Any, counter: Counter) -> None:
        raise TerminalError("replicas must not be negative")

    example(refuse)
    counter = Counter.objects.create()

    assert turn("Example", counter.pk) is Outcome.PARKED
    assert said() == [("WARNING", f"Example {counter.pk} was given up: replicas must not be negative", False)]


def test_a_reconciler_that_writes_past_its_object_is_an_error_of_its_author(example: Any, said: Any) -> None:
    def past_it(self: Any, counter: Counter) -> None:
        Counter.objects.filter(pk=counter.pk).update(value=1)
        counter.value = 2

    example(past_it, conflict_retries=0)
    counter = Counter.objects.create()

    assert turn("Example", counter.pk) is Outcome.CONFLICT
    assert said() == [("ERROR", f"Example {counter.pk} failed, runs again in 60.0 s.", True)]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_conflict_over_another_row_is_not_blamed_on_its_author(example: Any, atomic: bool) -> None:
    def other_row(self: Any, counter: Counter) -> None:
        Counter.objects.filter(pk=counter.pk).update(value=1)
        raise occ.Conflict(model=Counter, pk=counter.pk + 1, expected=1, actual=2)

    def other_model(self: Any, counter: Counter) -> None:
        Counter.objects.filter(pk=counter.pk).update(value=1)
        raise occ.Conflict(model=Author, pk=counter.pk, expected=1, actual=2)

    def nothing_written(self: Any, counter: Counter) -> None:
        raise stale(counter)

    functions = [other_row, other_model, nothing_written]
    current = [functions[0]]
    example(lambda self, counter: current[0](self, counter), conflict_retries=0, atomic=atomic)

    for current[0] in functions:
        counter = Counter.objects.create()
        assert turn("Example", counter.pk) is Outcome.CONFLICT
        assert controller.WROTE_ITSELF not in WorkItem.objects.get(key=str(counter.pk)).last_error


def test_a_lost_lease_is_a_warning(example: Any, said: Any) -> None:
    def robbed(self: Any, counter: Counter) -> None:
        WorkItem.objects.update(lease_token=77)

    example(robbed, atomic=False)
    counter = Counter.objects.create()

    assert turn("Example", counter.pk) is Outcome.LEASE_LOST
    ((level, text, traceback),) = said()
    assert (level, traceback) == ("WARNING", False)
    assert text.startswith("Example")


def test_a_failure_after_the_lease_was_lost_is_noted_nowhere_but_in_the_log(example: Any, said: Any) -> None:
    def robbed(self: Any, counter: Counter) -> None:
        WorkItem.objects.update(lease_token=77)
        raise RuntimeError

    example(robbed, atomic=False)
    counter = Counter.objects.create()

    assert turn("Example", counter.pk) is Outcome.LEASE_LOST
    ((level, text, traceback),) = said()
    assert (level, traceback) == ("WARNING", True)
    assert text.startswith(f"Example {counter.pk} failed, and ")


def test_where_the_failure_cannot_be_noted_the_lease_ends_by_itself(
    example: Any, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("the server went away")

    def fail(self: Any, counter: Counter) -> None:
        raise RuntimeError

    example(fail)
    counter = Counter.objects.create()
    monkeypatch.setattr(steps, "back_off", away)

    assert turn("Example", counter.pk) is Outcome.FAILED
    assert said() == [
        ("ERROR", f"Example {counter.pk} failed, and so did noting it; it runs again when its lease ends.", True)
    ]


def test_a_failure_that_cannot_be_noted_does_not_hide_the_interruption(
    example: Any, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("the server went away")

    def stopped(self: Any, counter: Counter) -> None:
        raise KeyboardInterrupt

    example(stopped)
    counter = Counter.objects.create()
    monkeypatch.setattr(steps, "back_off", away)

    with pytest.raises(KeyboardInterrupt):
        turn("Example", counter.pk)

    assert said() == [
        ("ERROR", f"Example {counter.pk} failed, and so did noting it; it runs again when its lease ends.", True)
    ]


def test_an_item_that_somebody_is_writing_is_left_for_later(
    example: Any, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [occ.Conflict(model=WorkItem, pk=1, expected=1, actual=2), OperationalError("no disk")]

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise errors.pop(0)

    example(lambda self, counter: None)
    monkeypatch.setattr(steps, "claim", refuse)

    assert turn("Example", 1) is Outcome.NOT_DUE
    ((level, text, _),) = said()
    assert (level, text.partition(":")[0]) == ("INFO", "Example 1 was not claimed, somebody is writing its item")
    with pytest.raises(OperationalError, match="no disk"):
        turn("Example", 1)


def test_a_run_is_announced_with_all_that_is_known_of_it(example: Any, said: Any) -> None:
    heard: list[dict[str, Any]] = []
    trouble = RuntimeError("no such host")

    def hear(**facts: Any) -> None:
        heard.append(facts)

    def deaf(**facts: Any) -> None:
        raise ValueError("a receiver's own trouble")

    def fail(self: Any, counter: Counter) -> None:
        assert running_reconciler.get() == "Example"
        raise trouble

    cls = example(fail)
    counter = Counter.objects.create()
    reconcile_finished.connect(hear)
    reconcile_finished.connect(deaf)
    try:
        turn("Example", counter.pk)
    finally:
        reconcile_finished.disconnect(hear)
        reconcile_finished.disconnect(deaf)

    ((duration, facts),) = [(each.pop("duration"), each) for each in heard]
    assert 0 <= duration < 60
    assert facts == {
        "signal": reconcile_finished,
        "sender": cls,
        "reconciler": "Example",
        "key": str(counter.pk),
        "using": "default",
        "outcome": Outcome.FAILED,
        "attempts": 1,
        "error": trouble,
    }
    assert said() == [
        ("ERROR", f"Example {counter.pk} failed, runs again in 60.0 s.", True),
        ("ERROR", f"{deaf!r} failed on reconcile_finished.", True),
    ]
    assert running_reconciler.get() == ""


@pytest.mark.django_db(transaction=True)
def test_who_finishes_a_run_wakes_a_worker_only_for_what_is_due_at_once(
    example: Any, woken: list[list[str] | None]
) -> None:
    def rest(self: Any, counter: Counter) -> Result | None:
        return None

    def write(self: Any, counter: Counter) -> Result | None:
        counter.value = 5
        return None

    def again(self: Any, counter: Counter) -> Result | None:
        return Result(requeue_after=0)

    def later(self: Any, counter: Counter) -> Result | None:
        return Result(requeue_after=60)

    def soon(self: Any, counter: Counter) -> Result | None:
        return Result(requeue_after=1)

    def disturbed(self: Any, counter: Counter) -> Result | None:
        WorkItem.objects.update(request_token=99)  # what an enqueue of another process does
        return None

    current = [rest]
    example(lambda self, counter: current[0](self, counter), atomic=False)
    nudged = {}

    for current[0] in (rest, write, again, later, soon, disturbed):
        counter = Counter.objects.create()
        woken.clear()
        turn("Example", counter.pk)
        nudged[current[0].__name__] = woken == [[str(counter.pk)]] or list(woken)
        WorkItem.objects.all().delete()

    assert nudged == {"rest": [], "write": True, "again": True, "later": [], "soon": [], "disturbed": True}


@pytest.mark.django_db(transaction=True)
def test_a_row_that_came_back_while_it_was_cleaned_up_wakes_a_worker(
    example: Any, woken: list[list[str] | None]
) -> None:
    def gone(self: Any, key: str) -> None:
        if key in revived:
            WorkItem.objects.update(request_token=99)

    revived: list[str] = []
    example(lambda self, counter: None, gone=gone, atomic=False)
    nudged = []

    for come_back in (False, True):
        counter = Counter.objects.create()
        key = str(counter.pk)
        revived[:] = [key] if come_back else []
        counter.delete()
        woken.clear()
        assert turn("Example", key) is Outcome.GONE
        nudged.append(list(woken))
        WorkItem.objects.all().delete()

    assert nudged == [[], [[key]]]


@pytest.mark.django_db(transaction=True)
def test_after_an_error_of_the_database_its_connection_is_tried_before_the_failure_is_noted(example: Any) -> None:
    def cut_off(self: Any, counter: Counter) -> None:
        connection.errors_occurred = True
        raise OperationalError("the server went away")

    example(cut_off, atomic=False)
    counter = Counter.objects.create()

    turn("Example", counter.pk)

    assert connection.errors_occurred is False
    assert WorkItem.objects.get().last_error == "OperationalError: the server went away"


@pytest.mark.django_db(transaction=True)
def test_cleaning_up_in_its_transaction_takes_no_savepoint(example: Any) -> None:
    example(lambda self, counter: None)
    reconcilers.enqueue("Example", 5)

    with CaptureQueriesContext(connection) as queries:
        assert turn("Example", 5) is Outcome.GONE

    assert [query["sql"] for query in queries if "SAVEPOINT" in query["sql"]] == []

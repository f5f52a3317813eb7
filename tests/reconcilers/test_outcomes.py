"""The contract of a Reconciler: what each outcome of a run does to its row and to its item."""

from __future__ import annotations

import datetime as dt
import logging
import math
import sys
from typing import Any

import pytest
from django.db import connection, transaction

import occ
import reconcilers
from occ import Backoff
from reconcilers import Reconciler, Result, TerminalError
from reconcilers.controller import Outcome, turn
from reconcilers.models import Cause, WorkItem
from reconcilers.signals import reconcile_finished
from reconcilers.testing import InlineRunner
from reconcilers.workqueue import operate
from reconcilers.workqueue.sql import DatabaseNow
from tests.library.models import Author, Book, Counter

pytestmark = pytest.mark.django_db

FIXED = Backoff(base=60, factor=2, cap=300, jitter="none", attempts=None)


def reconciler(function: Any, **attributes: Any) -> type[Reconciler]:
    body = {"model": Counter, "resync": None, "backoff": FIXED, "reconcile": function, **attributes}
    return type("Example", (Reconciler,), body)


def item() -> Any:
    return WorkItem.objects.annotate(now=DatabaseNow()).get()


def seconds_ahead(moment: dt.datetime | None) -> int | None:
    """Return in how many seconds a moment of the item is, to the next ten: the test itself takes some of them."""
    return None if moment is None else math.ceil((moment - item().now).total_seconds() / 10) * 10


def test_a_run_that_changes_nothing_writes_nothing() -> None:
    with InlineRunner(reconciler(lambda self, counter: None)) as runner:
        counter = Counter.objects.create(value=1)

        ran = runner.run()

    counter.refresh_from_db()
    assert (len(ran), counter.version) == (1, 1)
    assert (item().due_at, item().attempts, item().observed_version) == (None, 0, 1)


def test_a_write_runs_it_once_more_and_no_further_even_if_it_writes_again(caplog: pytest.LogCaptureFixture) -> None:
    def add_one(self: Any, counter: Counter) -> None:
        counter.value += 1

    with InlineRunner(reconciler(add_one)) as runner, caplog.at_level(logging.WARNING, "reconcilers"):
        counter = Counter.objects.create(value=0)

        ran = runner.run()
        runner.advance(days=1)
        later = runner.run()

    counter.refresh_from_db()
    assert (len(ran), later, counter.value) == (2, [], 2)
    assert caplog.messages == [
        f"Example {counter.pk} wrote again in the run that its own write asked for. Make it come to rest, or return "
        "Result(requeue_after=...) where another step is to follow."
    ]


def test_its_own_write_runs_the_other_reconcilers_of_the_row() -> None:
    class Other(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None: ...

    def settle(self: Any, counter: Counter) -> None:
        counter.value = 5

    with InlineRunner(reconciler(settle), Other) as runner:
        Counter.objects.create(value=5)
        runner.run()
        Counter.objects.update(value=1)

        ran = sorted(name for name, _, _ in runner.run())

    # One run each for the update; then Example's own write runs Example once, and Other once unless it came later.
    assert ran.count("Example") == 2
    assert ran.count("Other") in (1, 2)
    assert set(WorkItem.objects.values_list("observed_version", flat=True)) == {3}


def test_saving_by_hand_counts_as_its_own_write() -> None:
    def save(self: Any, counter: Counter) -> None:
        if counter.value != 5:
            counter.value = 5
            counter.save()

    with InlineRunner(reconciler(save)) as runner:
        counter = Counter.objects.create(value=1)

        ran = runner.run()

    counter.refresh_from_db()
    assert (len(ran), counter.version, item().observed_version) == (2, 2, 2)


def test_requeue_after_runs_it_then_and_a_change_runs_it_earlier() -> None:
    def step(self: Any, counter: Counter) -> Result:
        return Result(requeue_after=dt.timedelta(minutes=2))

    with InlineRunner(reconciler(step)) as runner:
        counter = Counter.objects.create()
        runner.run()
        runner.advance(seconds=100)
        too_early = runner.run()
        runner.advance(seconds=21)
        in_time = runner.run()
        counter.save()
        changed = runner.run()
        ahead = seconds_ahead(item().due_at)

    assert ([len(ran) for ran in (too_early, in_time, changed)], ahead) == ([0, 1, 1], 120)


def test_a_write_with_requeue_after_waits_for_it() -> None:
    def step(self: Any, counter: Counter) -> Result:
        counter.value += 1
        return Result(requeue_after=30)

    with InlineRunner(reconciler(step)) as runner:
        counter = Counter.objects.create(value=0)

        first = runner.run()
        runner.advance(seconds=31)
        second = runner.run()

    counter.refresh_from_db()
    assert (len(first), len(second), counter.value) == (1, 1, 2)


def test_the_earliest_of_requeue_after_and_resync_wins() -> None:
    every = {"resync": dt.timedelta(seconds=100)}

    with InlineRunner(reconciler(lambda self, counter: Result(requeue_after=1000), **every)) as runner:
        Counter.objects.create()
        runner.run()
        ahead = seconds_ahead(item().due_at)

    assert ahead in (80, 90, 100, 110)


def test_resyncs_are_spread() -> None:
    with InlineRunner(reconciler(lambda self, counter: None, resync=dt.timedelta(hours=10))) as runner:
        for _ in range(30):
            Counter.objects.create()
        runner.run()
        ahead = [(row.due_at - row.now).total_seconds() / 3600 for row in WorkItem.objects.annotate(now=DatabaseNow())]

    assert min(ahead) >= 8.99
    assert max(ahead) <= 11.01
    assert max(ahead) - min(ahead) > 0.5
    assert set(WorkItem.objects.values_list("cause", flat=True)) == {Cause.CLOCK}


def test_an_error_backs_off_and_events_do_not_bring_it_forward(caplog: pytest.LogCaptureFixture) -> None:
    def fail(self: Any, counter: Counter) -> None:
        raise RuntimeError("no such image")

    with InlineRunner(reconciler(fail)) as runner:
        counter = Counter.objects.create()
        runner.run()
        floors = [seconds_ahead(item().not_before)]
        for _ in range(10):
            counter.save()
        hammered = runner.run()
        runner.advance(seconds=61)
        retried = runner.run()
        floors.append(seconds_ahead(item().not_before))

    assert ([len(hammered), len(retried)], floors) == ([0, 1], [60, 120])
    assert item().last_error == "RuntimeError: no such image"
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.exc_info is not None for record in errors] == [True, True]


def test_after_max_attempts_it_is_parked_and_a_change_gives_it_one_try_after_the_floor() -> None:
    def fail(self: Any, counter: Counter) -> None:
        raise RuntimeError("still no such image")

    with InlineRunner(reconciler(fail, max_attempts=2)) as runner:
        counter = Counter.objects.create()
        outcomes = [outcome for _, _, outcome in runner.run()]
        runner.advance(minutes=10)
        outcomes += [outcome for _, _, outcome in runner.run()]
        runner.advance(days=30)
        parked_for_good = runner.run()
        counter.save()
        too_early = WorkItem.objects.get().due_at
        outcomes += [outcome for _, _, outcome in runner.run()]

    assert outcomes == ["failed", "parked", "parked"]
    assert (parked_for_good, too_early is not None) == ([], True)
    assert WorkItem.objects.get().attempts == 3


def test_a_terminal_error_parks_at_once_with_its_reason() -> None:
    def refuse(self: Any, counter: Counter) -> None:
        raise TerminalError("replicas must not be negative")

    with InlineRunner(reconciler(refuse)) as runner:
        Counter.objects.create()
        ran = runner.run()

    assert [outcome for _, _, outcome in ran] == ["parked"]
    assert (item().due_at, item().last_error) == (None, "TerminalError: replicas must not be negative")


def test_a_change_during_the_run_that_gives_up_is_not_parked_away() -> None:
    def changed_meanwhile(self: Any, counter: Counter) -> None:
        reconcilers.enqueue("Example", counter.pk)
        raise TerminalError("negative")

    with InlineRunner(reconciler(changed_meanwhile, atomic=False)) as runner:
        Counter.objects.create(value=-1)
        ran = runner.run()

    assert [outcome for _, _, outcome in ran] == ["failed"]
    assert (item().parked_at, item().due_at == item().not_before) == (None, True)


def test_success_forgets_what_failed_before() -> None:
    broken = [True]

    def heal(self: Any, counter: Counter) -> None:
        if broken:
            raise RuntimeError(broken.pop())

    with InlineRunner(reconciler(heal)) as runner:
        Counter.objects.create()
        runner.run()
        runner.advance(minutes=2)
        runner.run()

    assert (item().attempts, item().not_before, item().last_error) == (0, None, "")
    assert item().last_success_at is not None


def test_a_row_that_is_gone_is_cleaned_up_and_forgotten() -> None:
    cleaned: list[str] = []

    def gone(self: Any, key: str) -> None:
        cleaned.append(key)

    with InlineRunner(reconciler(lambda self, counter: None, gone=gone)) as runner:
        counter = Counter.objects.create()
        runner.run()
        key = str(counter.pk)
        counter.delete()
        ran = runner.run()

    assert (ran, cleaned) == ([("Example", key, "gone")], [key])
    assert not WorkItem.objects.exists()


def test_a_reconciler_may_delete_its_row() -> None:
    def delete(self: Any, counter: Counter) -> None:
        counter.delete()

    with InlineRunner(reconciler(delete)) as runner:
        Counter.objects.create()
        ran = runner.run()

    assert [outcome for _, _, outcome in ran] == ["done", "gone"]
    assert (Counter.objects.count(), WorkItem.objects.count()) == (0, 0)


def test_a_failed_run_leaves_no_write_behind() -> None:
    def write_and_fail(self: Any, counter: Counter) -> None:
        Author.objects.create(name="half done")
        counter.value = 99
        raise RuntimeError

    with InlineRunner(reconciler(write_and_fail)) as runner:
        counter = Counter.objects.create(value=1)
        runner.run()

    counter.refresh_from_db()
    assert (Author.objects.count(), counter.value) == (0, 1)


@pytest.mark.parametrize("returned", [5, "later", {"requeue_after": 5}, Result])
def test_a_reconciler_that_returns_nonsense_is_told_so(returned: Any) -> None:
    with InlineRunner(reconciler(lambda self, counter: returned)) as runner:
        Counter.objects.create()
        ran = runner.run()

    assert [outcome for _, _, outcome in ran] == ["failed"]
    assert item().last_error.startswith("TypeError: Example.reconcile must return None or a reconcilers.Result, not ")


def test_a_megabyte_of_error_text_with_zero_bytes_is_kept_short() -> None:
    def fail(self: Any, counter: Counter) -> None:
        raise RuntimeError("\x00x" * 500_000)

    with InlineRunner(reconciler(fail)) as runner:
        Counter.objects.create()
        runner.run()

    assert len(item().last_error) < 10_100
    assert item().last_error.endswith("[cut at 10000 characters]")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be printed")


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (ValueError("cannot read caf\udce9.txt"), "ValueError: cannot read caf\\udce9.txt"),
        (Unprintable(), "Unprintable"),
    ],
    ids=["a lone surrogate", "no text at all"],
)
def test_an_error_whose_text_cannot_be_stored_backs_off_like_any_other(
    error: Exception, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="reconcilers")  # pytest-xdist cannot send such text either

    def fail(self: Any, counter: Counter) -> None:
        raise error

    with InlineRunner(reconciler(fail)) as runner:
        Counter.objects.create()
        runner.run()

    assert item().last_error == stored


class Unpicklable(Exception):
    def __init__(self, reason: str, *, code: int) -> None:  # cannot be made again from its arguments
        super().__init__(reason)
        self.code = code
        self.holds = lambda: None

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def test_an_exception_that_does_not_pickle_backs_off_and_the_next_key_runs() -> None:
    def fail(self: Any, counter: Counter) -> None:
        if counter.value == 13:
            raise Unpicklable("no", code=5)

    with InlineRunner(reconciler(fail)) as runner:
        Counter.objects.create(value=13)
        Counter.objects.create(value=1)
        ran = [outcome for _, _, outcome in runner.run()]

    assert sorted(ran) == ["done", "failed"]
    assert WorkItem.objects.exclude(last_error="").get().last_error == "Unpicklable: no"


def test_a_row_that_makes_its_worker_exit_ends_parked() -> None:
    def leave(self: Any, counter: Counter) -> None:
        sys.exit("no configuration")

    with InlineRunner(reconciler(leave, max_attempts=2)) as runner:
        Counter.objects.create()
        for _ in range(2):
            with pytest.raises(SystemExit):
                runner.run()
            runner.advance(minutes=10)
        at_last = runner.run()

    assert (at_last, item().attempts, item().last_error) == ([], 2, "SystemExit: no configuration")
    assert item().parked_at is not None


def test_a_reconciler_that_writes_its_row_past_its_object_is_told_so() -> None:
    def past_it(self: Any, counter: Counter) -> None:
        Counter.objects.filter(pk=counter.pk).update(value=1)
        counter.value = 2

    with InlineRunner(reconciler(past_it)) as runner:
        Counter.objects.create()
        ran = [outcome for _, _, outcome in runner.run()]

    assert ran == ["conflict"]
    assert item().last_error.splitlines()[1] == (
        "reconcile itself wrote this row past the object that it was given. Change that object; it is written for you."
    )


def test_an_enqueue_with_a_delay_during_the_run_is_kept() -> None:
    def ask_again(self: Any, counter: Counter) -> None:
        reconcilers.enqueue("Example", counter.pk, delay=30)

    with InlineRunner(reconciler(ask_again)) as runner:
        Counter.objects.create()
        ran = runner.run()
        ahead = seconds_ahead(item().due_at)

    assert (len(ran), ahead) == (1, 30)


def test_lock_errors_of_the_database_count_as_conflicts() -> None:
    left = [2]

    def deadlocked(self: Any, counter: Counter) -> None:
        if left[0]:
            left[0] -= 1
            raise occ.Conflict(model=Counter, pk=counter.pk, expected=1, actual=2)
        counter.value = 3

    with InlineRunner(reconciler(deadlocked, conflict_retries=2)) as runner:
        counter = Counter.objects.create()
        ran = runner.run()

    counter.refresh_from_db()
    assert ([outcome for _, _, outcome in ran], counter.value) == (["done", "done"], 3)


def test_a_network_reconciler_runs_with_no_transaction_of_ours_open() -> None:
    depths = []

    def look(self: Any, book: Book) -> None:
        depths.append(len(connection.savepoint_ids))

    with InlineRunner(reconciler(look, model=Book, atomic=False), reconciler_named("Inside", look)) as runner:
        outside = len(connection.savepoint_ids)
        Book.objects.create(title="It")
        runner.run()

    assert depths == [outside, outside + 1]


def reconciler_named(name: str, function: Any) -> type[Reconciler]:
    return type(name, (Reconciler,), {"model": Book, "reconcile": function, "resync": None})


def test_a_lease_is_extended_outside_of_transactions_only() -> None:
    told = []

    def work(self: Any, counter: Counter) -> None:
        try:
            self.extend_lease()
        except RuntimeError as error:
            told.append(str(error))

    with InlineRunner(reconciler(work)) as runner:
        Counter.objects.create()
        runner.run()
    with InlineRunner(reconciler(work, atomic=False)) as runner:
        Counter.objects.create()
        runner.run()

    assert told == [
        "extend_lease() needs Example.atomic = False: other workers cannot see what an open transaction writes. Set "
        "it, or raise the reconciler's lease."
    ]
    with pytest.raises(RuntimeError, match=r"works inside reconcile\(\) only"):
        Reconciler().extend_lease()


def test_a_run_whose_lease_was_taken_writes_nothing() -> None:
    def robbed(self: Any, counter: Counter) -> None:
        counter.value = 99
        WorkItem.objects.update(lease_token=77)

    with InlineRunner(reconciler(robbed)) as runner:
        counter = Counter.objects.create(value=1)
        ran = runner.run()

    counter.refresh_from_db()
    assert ([outcome for _, _, outcome in ran], counter.value) == (["lease_lost"], 1)


def test_each_run_is_announced_with_its_outcome() -> None:
    heard: list[tuple[str, str, int]] = []

    def hear(*, reconciler: str, outcome: Outcome, attempts: int, duration: float, **kwargs: Any) -> None:
        assert duration >= 0
        heard.append((reconciler, outcome, attempts))

    def deaf(**kwargs: Any) -> None:
        raise RuntimeError("a receiver's own trouble")

    def twice(self: Any, counter: Counter) -> None:
        if len(heard) == 0:
            raise RuntimeError

    reconcile_finished.connect(hear)
    reconcile_finished.connect(deaf)
    try:
        with InlineRunner(reconciler(twice)) as runner:
            Counter.objects.create()
            runner.run()
            runner.advance(minutes=2)
            runner.run()
    finally:
        reconcile_finished.disconnect(hear)
        reconcile_finished.disconnect(deaf)

    assert heard == [("Example", "failed", 1), ("Example", "done", 2)]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, GeneratorExit, BaseException])
def test_a_worker_interrupted_in_mid_run_gives_the_key_back_charged(interruption: type[BaseException]) -> None:
    def stopped(self: Any, counter: Counter) -> None:
        raise interruption

    with InlineRunner(reconciler(stopped)):
        counter = Counter.objects.create()
        with pytest.raises(interruption):
            turn("Example", counter.pk)

    assert (item().attempts, item().lease_until, seconds_ahead(item().due_at)) == (1, None, 60)


def test_status_tells_where_an_object_stands() -> None:
    broken = [True]

    def reconcile(self: Any, counter: Counter) -> None:
        if counter.value == 13:
            raise TerminalError("unlucky")
        if counter.value == 7 and broken:
            raise RuntimeError("try later")

    def state() -> tuple[str, int | None, str]:
        status = reconcilers.status(counter)["Example"]
        return status.state, status.observed_version, status.error

    with InlineRunner(reconciler(reconcile)) as runner:
        counter = Counter.objects.create(value=1)
        states = [state()]
        runner.run()
        states.append(state())
        counter.value = 7
        counter.save()
        states.append(state())
        runner.run()
        states.append(state())
        counter.value = 13
        counter.save()
        runner.advance(minutes=5)
        runner.run()
        states.append(state())

    assert states == [
        ("pending", None, ""),
        ("settled", 1, ""),
        ("pending", 1, ""),
        ("failing", 1, "RuntimeError: try later"),
        ("parked", 1, "TerminalError: unlucky"),
    ]


def test_a_key_held_by_another_worker_is_not_claimed() -> None:
    nested: list[Outcome] = []

    def again(self: Any, counter: Counter) -> None:
        nested.append(turn("Example", counter.pk))

    with InlineRunner(reconciler(again)) as runner:
        Counter.objects.create()
        runner.run()

    assert nested == [Outcome.NOT_DUE]


def test_items_of_a_renamed_reconciler_are_moved() -> None:
    with InlineRunner(reconciler(lambda self, counter: None)):
        WorkItem.objects.bulk_create(
            WorkItem(reconciler=name, key=key, request_token=1, created_at=DatabaseNow())
            for name, key in (("Old", "1"), ("Old", "2"), ("Example", "2"))
        )

        with transaction.atomic():
            moved = operate.rename("Old", "Example", using="default")

    items = WorkItem.objects.order_by("key").values_list("reconciler", "key", "due_at")
    assert moved == 2
    assert [(name, key, due is not None) for name, key, due in items] == [
        ("Example", "1", False),
        ("Example", "2", True),
    ]

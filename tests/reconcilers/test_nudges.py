"""Nudges: one per commit, never at the caller's expense."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from django.db import transaction

import reconcilers
from reconcilers import Reconciler
from reconcilers.controller import turn
from reconcilers.models import WorkItem
from reconcilers.workqueue import nudges, sweep
from reconcilers.workqueue.sql import DatabaseNow
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)

Sent = list[tuple[list[str] | None, str]]


# Longer than any test takes, however loaded the machine is; times are moved in the table instead.
HOUR = 3600


@pytest.fixture
def sent(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What this test sends: the keys (None: a sweep is asked for) and the database.

    With an allowance that no earlier test has used up, and deaf to threads that an earlier test may have left.
    """
    settings.RECONCILERS = {"NUDGE": True, "NUDGE_AGAIN_SECONDS": HOUR}
    monkeypatch.setattr(nudges, "_allowance", nudges.Allowance(per_second=200))
    monkeypatch.setattr(nudges, "GRACE_SECONDS", HOUR / 2)
    heard: Sent = []
    here = threading.get_ident()

    def hear(keys: list[nudges.Key] | None, using: str) -> None:
        if threading.get_ident() == here:
            heard.append((None if keys is None else [key for _, key in keys], using))

    monkeypatch.setattr(nudges, "_sender", hear)
    monkeypatch.setattr(nudges, "_counter", None)
    return heard


@pytest.fixture
def idle(register: Register) -> type[Reconciler]:
    return register(type("Idle", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))


def test_one_nudge_per_transaction_names_each_key_once(idle: type[Reconciler], sent: Sent) -> None:
    with transaction.atomic():
        for key in ("1", "2", "1"):
            reconcilers.enqueue(idle, key)
        within = list(sent)

    assert (within, sent) == ([], [(["1", "2"], "default")])


def test_a_rolled_back_transaction_nudges_nobody(idle: type[Reconciler], sent: Sent) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        reconcilers.enqueue(idle, 1)
        raise RuntimeError
    with transaction.atomic():
        reconcilers.enqueue(idle, 2)

    assert sent == [(["2"], "default")]


def test_what_was_asked_for_outside_of_a_rolled_back_savepoint_is_nudged(idle: type[Reconciler], sent: Sent) -> None:
    with transaction.atomic():
        with pytest.raises(RuntimeError), transaction.atomic():
            reconcilers.enqueue(idle, 1)
            raise RuntimeError
        reconcilers.enqueue(idle, 2)

    assert sent == [(["2"], "default")]


def test_many_keys_are_one_request_for_a_sweep(idle: type[Reconciler], sent: Sent) -> None:
    with transaction.atomic():
        for key in range(nudges.KEYS_PER_NUDGE + 1):
            reconcilers.enqueue(idle, key)

    assert sent == [(None, "default")]


def test_delayed_requests_nudge_nobody(idle: type[Reconciler], sent: Sent) -> None:
    reconcilers.enqueue(idle, 1, delay=5)

    assert sent == []


def test_a_sender_that_fails_is_the_callers_business_in_no_way(
    idle: type[Reconciler], sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(keys: Any, using: str) -> None:
        raise ConnectionError("no broker")

    nudges.set_sender(fail)
    called = []

    with caplog.at_level(logging.ERROR, "reconcilers"), transaction.atomic():
        transaction.on_commit(lambda: called.append("before"))
        Counter.objects.create()
        transaction.on_commit(lambda: called.append("after"))

    assert called == ["before", "after"]
    assert caplog.messages == ["A nudge was not sent; the next sweep makes up for it."]
    assert WorkItem.objects.count() == 1


def test_an_own_callback_that_raises_does_not_keep_the_nudge_back(idle: type[Reconciler], sent: Sent) -> None:
    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError), transaction.atomic():
        reconcilers.enqueue(idle, 1)
        transaction.on_commit(fail)

    assert sent == [(["1"], "default")]


def test_a_key_asked_for_while_it_ran_is_nudged_when_it_is_released(register: Register, sent: Sent) -> None:
    @register
    class Asked(Reconciler):
        model = Counter
        atomic = False

        def reconcile(self, counter: Counter) -> None:
            if len(sent) == 1:
                reconcilers.enqueue("Asked", counter.pk)

    counter = Counter.objects.create()
    turn(Asked, counter.pk)

    # At the creation, at the request during the run (too early, but it commits), and at the release.
    assert sent == [([str(counter.pk)], "default")] * 3


def test_a_sweep_repeats_a_nudge_when_its_grace_is_over_and_not_before(idle: type[Reconciler], sent: Sent) -> None:
    reconcilers.enqueue(idle, 1)
    sent.clear()
    sweep()
    at_once = list(sent)
    WorkItem.objects.update(nudged_at=DatabaseNow(-2 * HOUR))
    sweep()
    sweep()

    assert (at_once, sent) == ([], [(["1"], "default")])


def test_a_sweep_keeps_to_the_window_and_shares_it_evenly(register: Register, sent: Sent, settings: Any) -> None:
    settings.RECONCILERS = {**settings.RECONCILERS, "NUDGE_WINDOW": 10}
    for name in ("Busy", "Quiet"):
        register(type(name, (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))
    WorkItem.objects.bulk_create(
        WorkItem(
            reconciler=name,
            key=str(key),
            request_token=1,
            created_at=DatabaseNow(),
            due_at=DatabaseNow(key - 500),
        )
        for name, count in (("Busy", 100), ("Quiet", 3))
        for key in range(count)
    )

    sweep()
    first = list(sent)
    sweep()

    assert first == [(["0", "0", "1", "1", "2", "2", "3", "4"], "default")]
    assert sent == first


def test_what_waits_in_a_crowded_queue_is_repeated_rarely(
    idle: type[Reconciler], sent: Sent, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RECONCILERS = {"NUDGE": True, "NUDGE_AGAIN_SECONDS": 15, "NUDGE_WINDOW": 2}
    in_queue = {None: 2}
    monkeypatch.setattr(nudges, "_counter", in_queue.__getitem__)
    _make_items(3, ago=HOUR)
    sweep()
    sent.clear()

    found = []
    for seconds, waiting in ((14, 0), (20, 2), (20, 1), (590, 2), (610, 2)):
        WorkItem.objects.filter(nudged_at__isnull=False).update(nudged_at=DatabaseNow(-seconds))
        in_queue[None] = waiting
        sweep()
        found.append([key for keys, _ in sent for key in keys or ()])
        sent.clear()

    assert found == [[], [], ["0", "1"], [], ["0", "1"]]


def test_a_queue_that_cannot_be_counted_is_not_crowded(
    idle: type[Reconciler], sent: Sent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(queue: str | None) -> int:
        raise OSError("no broker")

    monkeypatch.setattr(nudges, "_counter", fail)
    _make_items(1, ago=HOUR)

    sweep()

    assert sent == [(["0"], "default")]
    assert "The messages of a queue were not counted." in caplog.messages


def _make_items(count: int, *, ago: float) -> None:
    WorkItem.objects.bulk_create(
        WorkItem(
            reconciler="Idle", key=str(key), request_token=1, created_at=DatabaseNow(), due_at=DatabaseNow(key - ago)
        )
        for key in range(count)
    )


def test_a_sweep_keeps_to_the_window_among_items_that_are_due_at_one_instant(
    idle: type[Reconciler], sent: Sent, settings: Any
) -> None:
    settings.RECONCILERS = {**settings.RECONCILERS, "NUDGE_WINDOW": 10}
    WorkItem.objects.bulk_create(
        WorkItem(reconciler="Idle", key=str(key), request_token=1, created_at=DatabaseNow()) for key in range(100)
    )
    WorkItem.objects.update(due_at=DatabaseNow(-HOUR))

    for _ in range(3):
        sweep()

    assert [len(keys or []) for keys, _ in sent] == [10]


def test_changes_are_nudged_before_what_the_clock_asked_for(register: Register, sent: Sent, settings: Any) -> None:
    settings.RECONCILERS = {**settings.RECONCILERS, "NUDGE_WINDOW": 3}
    register(type("Idle", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))
    WorkItem.objects.bulk_create(
        WorkItem(
            reconciler="Idle",
            key=key,
            request_token=1,
            cause=cause,
            created_at=DatabaseNow(),
            due_at=DatabaseNow(-waited),
        )
        for key, cause, waited in (("resync", 2, 900), ("another", 2, 800), ("change", 0, 300), ("own", 1, 500))
    )

    sweep()

    assert sent == [(["change", "own", "resync"], "default")]


def test_switched_off_nothing_is_sent(idle: type[Reconciler], sent: Sent, settings: Any) -> None:
    settings.RECONCILERS = {"NUDGE": False}

    reconcilers.enqueue(idle, 1)
    sweep()

    assert sent == []


def test_the_allowance_of_a_process_is_a_second_of_keys_and_fills_again() -> None:
    now = [0.0]
    allowance = nudges.Allowance(per_second=100, clock=lambda: now[0])

    burst = [allowance.take(40) for _ in range(3)]
    now[0] = 0.5
    half_a_second_later = [allowance.take(50), allowance.take(50)]
    now[0] = 60.0
    after_a_rest = [allowance.take(100), allowance.take(1)]

    assert (burst, half_a_second_later, after_a_rest) == ([True, True, False], [True, False], [True, False])

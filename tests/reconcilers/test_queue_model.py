"""The queue against a model: any interleaving of requests, workers, crashes and time keeps the guarantees."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from reconcilers import Reconciler, enqueue
from reconcilers.exceptions import LeaseLost
from reconcilers.models import WorkItem
from reconcilers.registry import get
from reconcilers.testing import registered
from reconcilers.workqueue import operate, steps
from reconcilers.workqueue.sql import DatabaseNow, clock_offset
from reconcilers.workqueue.sweeper import park_poison
from tests.library.models import Counter

# Model time passes in units so long that the real time a test takes is nothing beside them.
UNIT = 1000
LEASE = 2
MAX_ATTEMPTS = 3
KEYS = ["1", "2"]

units = st.integers(0, 3)


class Modelled(Reconciler):
    model = Counter
    lease = dt.timedelta(seconds=LEASE * UNIT)
    max_attempts = MAX_ATTEMPTS
    resync = None

    def reconcile(self, counter: Counter) -> None: ...


@dataclass
class Item:
    """What the model knows of a key."""

    due: int | None
    floor: int | None = None
    attempts: int = 0
    parked: bool = False
    holder: int | None = None  # the lease token of the worker that holds it
    until: int | None = None
    last_token: int = 0
    asked_since_claim: bool = False

    def row(self) -> tuple[Any, ...]:
        return self.due, self.floor, self.attempts, self.parked, self.until, self.last_token


@dataclass
class Worker:
    """A claim as its worker remembers it, maybe after it lost the lease."""

    claim: steps.Claim
    item: Item
    token: int


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.items: dict[str, Item] = {}
        self.workers: list[Worker] = []
        self.now = 0
        # Keys asked for by a committed transaction and not run since: what must never be lost.
        self.owed: set[str] = set()
        self._registered = registered(Modelled)
        self._registered.__enter__()
        self._transaction = transaction.atomic()
        self._transaction.__enter__()
        self._clock = clock_offset.set(0.0)

    @initialize()
    def note_the_time(self) -> None:
        WorkItem.objects.bulk_create([WorkItem(reconciler="Clock", key="0", request_token=1, created_at=DatabaseNow())])
        self.began = WorkItem.objects.get(reconciler="Clock").created_at

    def teardown(self) -> None:
        clock_offset.reset(self._clock)
        transaction.set_rollback(True)
        self._transaction.__exit__(None, None, None)
        self._registered.__exit__(None, None, None)

    # What people and other processes do.

    @rule(key=st.sampled_from(KEYS), delay=units)
    def ask(self, key: str, delay: int) -> None:
        enqueue(Modelled, key, delay * UNIT)

        asked = self.now + delay
        item = self.items.get(key)
        self.owed.add(key)
        if item is None:
            self.items[key] = Item(due=asked)
            return
        asked = asked if item.floor is None else max(asked, item.floor)
        item.due = asked if item.due is None else min(item.due, asked)
        item.parked = False
        item.asked_since_claim = True

    @rule(key=st.sampled_from(KEYS))
    def ask_and_roll_back(self, key: str) -> None:
        with transaction.atomic():
            enqueue(Modelled, key)
            transaction.set_rollback(True)

    @rule(passed=units)
    def wait(self, passed: int) -> None:
        self.now += passed
        clock_offset.set(self.now * UNIT)

    @rule()
    def park_poison(self) -> None:
        park_poison(get(Modelled), DEFAULT_DB_ALIAS)

        for item in self.items.values():
            if item.until is not None and item.until <= self.now and item.attempts >= MAX_ATTEMPTS:
                self._free(item)
                item.parked, item.due = True, None
                item.floor = self.now  # the real floor is 300 seconds ahead: nothing, in units

    @rule(key=st.sampled_from(KEYS), reset=st.booleans())
    def requeue_by_hand(self, key: str, reset: bool) -> None:
        count = operate.requeue(self._ids(key), using=DEFAULT_DB_ALIAS, reset=reset)

        item = self.items.get(key)
        assert count == (item is not None)
        if item is not None:
            item.due, item.floor, item.parked, item.asked_since_claim = self.now, None, False, True
            item.attempts = 0 if reset else item.attempts
            self.owed.add(key)

    @rule(key=st.sampled_from(KEYS))
    def park_by_hand(self, key: str) -> None:
        count = operate.park(self._ids(key), using=DEFAULT_DB_ALIAS, reason="by hand")

        item = self.items.get(key)
        held = item is not None and item.until is not None and item.until > self.now
        assert count == (item is not None and not item.parked and not held)
        if item is not None and count:
            self._free(item)
            item.parked, item.due, item.last_token = True, None, item.last_token + 1

    # What workers do.

    @rule(key=st.sampled_from(KEYS), at_once=st.booleans())
    def claim(self, key: str, at_once: bool) -> None:
        if at_once:
            claim = steps.claim(get(Modelled), key, using=DEFAULT_DB_ALIAS)
        else:
            waiting = steps.waiting([get(Modelled)], using=DEFAULT_DB_ALIAS)
            claims = steps.claim_many(waiting[0], using=DEFAULT_DB_ALIAS, limit=1) if waiting else []
            claim = claims[0] if claims else None

        claimable = {known for known, item in self.items.items() if self._claimable(item)}
        if claim is None:
            assert key not in claimable if at_once else not claimable
            return
        assert claim.key in claimable
        item = self.items[claim.key]
        item.attempts += 1
        item.last_token += 1
        item.holder, item.until = item.last_token, self.now + LEASE
        item.asked_since_claim = False
        if item.due is not None and item.due <= self.now:
            item.due = None
        self.owed.discard(claim.key)
        assert (claim.attempts, claim.lease_token) == (item.attempts, item.last_token)
        self.workers.append(Worker(claim=claim, item=item, token=item.last_token))

    @rule(data=st.data(), requeue=st.one_of(st.none(), units))
    def finish(self, data: st.DataObject, requeue: int | None) -> None:
        if (worker := self._pick(data)) is None:
            return
        seconds = None if requeue is None else requeue * UNIT
        if not self._holds(worker):
            with pytest.raises(LeaseLost):
                steps.finish(worker.claim, version=1, requeue_after=seconds)
            return
        asked = steps.finish(worker.claim, version=1, requeue_after=seconds)

        item = worker.item
        assert asked == item.asked_since_claim
        if requeue is not None:
            item.due = self.now + requeue if item.due is None else min(item.due, self.now + requeue)
        item.attempts, item.floor = 0, None
        self._free(item)

    @rule(data=st.data(), delay=units)
    def fail(self, data: st.DataObject, delay: int) -> None:
        if (worker := self._pick(data)) is None:
            return
        if not self._holds(worker):
            with pytest.raises(LeaseLost):
                steps.back_off(worker.claim, delay=delay * UNIT, error="no")
            return
        steps.back_off(worker.claim, delay=delay * UNIT, error="no")

        self._free(worker.item)
        worker.item.due = worker.item.floor = self.now + delay
        self.owed.add(worker.claim.key)

    @rule(data=st.data(), delay=units)
    def give_up(self, data: st.DataObject, delay: int) -> None:
        if (worker := self._pick(data)) is None:
            return
        if not self._holds(worker):
            with pytest.raises(LeaseLost):
                steps.park(worker.claim, delay=delay * UNIT, error="no")
            return
        parked = steps.park(worker.claim, delay=delay * UNIT, error="no")

        item = worker.item
        assert parked == (not item.asked_since_claim)
        self._free(item)
        item.floor, item.parked = self.now + delay, parked
        item.due = None if parked else self.now + delay

    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        if (worker := self._pick(data)) is None:
            return
        held = self._holds(worker) and worker.item.attempts > 0
        steps.release(worker.claim)

        if held:
            item = worker.item
            item.attempts -= 1
            item.due = self.now if item.due is None else min(item.due, self.now)
            self._free(item)
            self.owed.add(worker.claim.key)

    @rule(data=st.data())
    def clean_up(self, data: st.DataObject) -> None:
        if (worker := self._pick(data)) is None:
            return
        if not self._holds(worker):
            with pytest.raises(LeaseLost):
                steps.remove(worker.claim)
            return
        removed = steps.remove(worker.claim)

        item = worker.item
        assert removed == (not item.asked_since_claim)
        if removed:
            del self.items[worker.claim.key]
        else:
            item.attempts, item.floor = 0, None
            self._free(item)

    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        if (worker := self._pick(data)) is None:
            return
        if not self._holds(worker):
            with pytest.raises(LeaseLost):
                steps.extend(worker.claim, lease=LEASE * UNIT)
            return
        steps.extend(worker.claim, lease=LEASE * UNIT)

        worker.item.until = self.now + LEASE

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        if worker := self._pick(data):
            self.workers.remove(worker)
            if self._holds(worker):
                self.owed.add(worker.claim.key)

    # What must always hold.

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        rows = {}
        for row in WorkItem.objects.filter(reconciler="Modelled"):
            parked, floor = row.parked_at is not None, self._unit(row.not_before)
            times = (self._unit(row.due_at), floor)
            rows[row.key] = (*times, row.attempts, parked, self._unit(row.lease_until), row.lease_token)
        assert rows == {key: item.row() for key, item in self.items.items()}

    @invariant()
    def nothing_asked_for_is_forgotten(self) -> None:
        for key in self.owed:
            item = self.items.get(key)
            assert item is not None
            assert item.due is not None or item.until is not None or item.parked

    # Shared.

    def _pick(self, data: st.DataObject) -> Worker | None:
        return data.draw(st.sampled_from(self.workers)) if self.workers else None

    def _holds(self, worker: Worker) -> bool:
        current = self.items.get(worker.claim.key)
        return current is worker.item and current.holder == worker.token

    def _claimable(self, item: Item) -> bool:
        if item.parked:
            return False
        if item.until is not None:
            return item.until <= self.now and item.attempts < MAX_ATTEMPTS
        return item.due is not None and item.due <= self.now

    def _free(self, item: Item) -> None:
        item.holder = item.until = None

    def _ids(self, key: str) -> list[int]:
        return list(WorkItem.objects.filter(reconciler="Modelled", key=key).values_list("id", flat=True))

    def _unit(self, moment: dt.datetime | None) -> int | None:
        return None if moment is None else round((moment - self.began).total_seconds() / UNIT)


@pytest.mark.django_db
def test_no_interleaving_loses_a_request_or_lets_two_workers_in() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )

"""Reconcilers that leave their worker in another state than they found it: the worker goes on with other keys."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import pytest
from django.db import connection, transaction

from reconcilers import Reconciler
from reconcilers.controller import Outcome, turn
from reconcilers.models import WorkItem
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


def careless(register: Register, function: Any, **attributes: Any) -> type[Reconciler]:
    """Return a reconciler that is careless with the value 13 only."""

    def reconcile(self: Any, counter: Counter) -> None:
        if counter.value == 13:
            function(self, counter)
        else:
            counter.value = 1

    body = {"model": Counter, "resync": None, "reconcile": reconcile, **attributes}
    return register(type("Careless", (Reconciler,), body))


def the_next_key_is_written(reconciler: type[Reconciler]) -> bool:
    other = Counter.objects.create()
    outcome = turn(reconciler, other.pk)
    connection.close()  # what was not committed is gone
    other.refresh_from_db()
    return (outcome, other.value) == (Outcome.DONE, 1)


def enter_a_block(self: Any, counter: Counter) -> None:
    transaction.atomic().__enter__()
    counter.value = 7


def switch_autocommit_off(self: Any, counter: Counter) -> None:
    transaction.set_autocommit(False)
    counter.value = 7


def begin_by_sql(self: Any, counter: Counter) -> None:
    if connection.vendor == "mysql":
        pytest.skip("MySQL's driver does not know")
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def enter_a_block_and_fail(self: Any, counter: Counter) -> None:
    transaction.atomic().__enter__()
    raise ValueError("in the block")


@pytest.mark.parametrize(
    ("function", "atomic", "error"),
    [
        (enter_a_block, True, "RuntimeError: Careless.reconcile left a transaction open on database default"),
        (enter_a_block, False, "RuntimeError: Careless.reconcile left a transaction open on database default"),
        (enter_a_block_and_fail, True, "ValueError: in the block"),
        (enter_a_block_and_fail, False, "ValueError: in the block"),
        (begin_by_sql, False, "RuntimeError: Careless.reconcile left a transaction open on database default"),
        (switch_autocommit_off, False, "RuntimeError: Careless.reconcile left a transaction open on database default"),
    ],
)
def test_a_transaction_that_is_left_open_fails_the_run_and_takes_no_other_with_it(
    function: Any, atomic: bool, error: str, register: Register
) -> None:
    reconciler = careless(register, function, atomic=atomic)
    counter = Counter.objects.create(value=13)

    outcome = turn(reconciler, counter.pk)

    assert outcome == Outcome.FAILED
    assert (connection.in_atomic_block, connection.get_autocommit()) == (False, True)
    assert the_next_key_is_written(reconciler)
    counter.refresh_from_db()
    item = WorkItem.objects.get(key=str(counter.pk))
    assert (counter.value, item.attempts, item.lease_until) == (13, 1, None)
    assert item.last_error.startswith(error)


def test_a_transaction_that_is_ended_by_sql_fails_the_run(register: Register) -> None:
    if connection.vendor == "mysql":
        pytest.skip("MySQL's driver does not know")

    def commit(self: Any, counter: Counter) -> None:
        counter.value = 7
        with connection.cursor() as cursor:
            cursor.execute("COMMIT")

    reconciler = careless(register, commit)
    counter = Counter.objects.create(value=13)

    outcome = turn(reconciler, counter.pk)

    counter.refresh_from_db()
    item = WorkItem.objects.get()
    assert (outcome, counter.value, item.lease_until) == (Outcome.FAILED, 13, None)
    assert item.last_error.startswith("RuntimeError: Careless.reconcile ended its run's transaction on database ")
    assert the_next_key_is_written(reconciler)


def test_a_transaction_that_gone_leaves_open_is_rolled_back(register: Register) -> None:
    def gone(self: Any, key: str) -> None:
        transaction.atomic().__enter__()

    reconciler = careless(register, enter_a_block, gone=gone)
    counter = Counter.objects.create()
    pk = counter.pk
    counter.delete()

    outcome = turn(reconciler, pk)

    assert outcome == Outcome.FAILED
    assert the_next_key_is_written(reconciler)


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("leaving", ["returns", "exits", "raises"])
def test_a_forked_child_that_comes_back_from_reconcile_does_nothing_on_the_workers_connections(
    leaving: str, atomic: bool, register: Register
) -> None:
    statuses = []

    def fork(self: Any, counter: Counter) -> None:
        child = os.fork()
        if child:
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            counter.value = 7
        elif leaving == "exits":
            raise SystemExit(0)
        elif leaving == "raises":
            raise ValueError("in the child")

    reconciler = careless(register, fork, atomic=atomic)
    counter = Counter.objects.create(value=13)

    outcome = turn(reconciler, counter.pk)

    counter.refresh_from_db()
    assert (outcome, counter.value, statuses) == (Outcome.DONE, 7, [70])
    assert the_next_key_is_written(reconciler)


def test_a_key_that_is_taken_from_a_row_that_is_still_there_is_an_error(register: Register) -> None:
    def take_the_key(self: Any, counter: Counter) -> None:
        counter.pk = None
        counter.value = 7

    reconciler = careless(register, take_the_key)
    counter = Counter.objects.create(value=13)

    outcome = turn(reconciler, counter.pk)

    item = WorkItem.objects.get()
    assert (outcome, Counter.objects.get().value) == (Outcome.FAILED, 13)
    assert item.last_error == "ValueError: Careless.reconcile took the primary key of a row that it did not delete."


def test_a_cancelled_task_inside_fails_the_run_and_not_the_worker(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    def cancelled(self: Any, counter: Counter) -> None:
        raise asyncio.CancelledError

    reconciler = careless(register, cancelled)
    counter = Counter.objects.create(value=13)

    with caplog.at_level(logging.ERROR, "reconcilers"):
        outcome = turn(reconciler, counter.pk)

    item = WorkItem.objects.get()
    assert (outcome, item.attempts, item.lease_until, item.last_error) == (Outcome.FAILED, 1, None, "CancelledError: ")
    assert len(caplog.records) == 1


def test_an_error_whose_text_ends_the_process_is_noted_by_its_name(register: Register) -> None:
    class Spiteful(Exception):
        def __str__(self) -> str:
            raise SystemExit("no text")

    def spite(self: Any, counter: Counter) -> None:
        raise Spiteful

    reconciler = careless(register, spite)
    counter = Counter.objects.create(value=13)

    outcome = turn(reconciler, counter.pk)

    item = WorkItem.objects.get()
    assert (outcome, item.last_error, item.lease_until) == (Outcome.FAILED, "Spiteful", None)

"""retry_on_conflict: the whole function again, and only when another writer was in the way."""

import inspect
import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

import occ
from occ.backoff import Backoff
from occ.retry import LOCK_AFTER, Attempts, is_retryable
from tests.library.models import Author, Counter

AT_ONCE = Backoff(base=0, cap=0, attempts=4)


def stale_copy(pk: int) -> Counter:
    counter = Counter.objects.get(pk=pk)
    Counter.objects.get(pk=pk).save()
    return counter


@pytest.mark.django_db
def test_the_function_runs_again_whole_and_its_first_try_leaves_nothing():
    counter = Counter.objects.create()
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    def work(pk: int, *, name: str) -> str:
        calls.append(name)
        Author.objects.create(name=f"{name} {len(calls)}")
        (stale_copy(pk) if len(calls) < 3 else Counter.objects.get(pk=pk)).save()
        return "done"

    assert work(counter.pk, name="Ann") == "done"
    assert calls == ["Ann"] * 3
    assert [author.name for author in Author.objects.all()] == ["Ann 3"]


@pytest.mark.django_db
def test_it_works_bare_and_keeps_the_functions_name():
    @occ.retry_on_conflict
    def rename(pk: int) -> int:
        """Rename it."""
        return pk

    assert (rename(3), rename.__name__, rename.__doc__) == (3, "rename", "Rename it.")


@pytest.mark.django_db
def test_a_stale_argument_is_refused_at_once():
    counter = Counter.objects.create()
    stale = stale_copy(counter.pk)
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    def save(instance: Counter) -> None:
        calls.append(1)
        instance.save()

    with pytest.raises(occ.Conflict) as caught:
        save(instance=stale)

    assert calls == [1]
    assert caught.value.__notes__ == [
        "Not retried: the stale object was passed in. Pass its key and read it inside the function."
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("error", [IntegrityError("x"), OperationalError("no such table"), ValueError("x")])
def test_other_errors_are_not_retried(error):
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    def work() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        work()

    assert calls == [1]


def caused(error: Exception, **attributes: object) -> Exception:
    """Give ``error`` the cause with which the driver explains itself."""
    error.__cause__ = Exception()
    vars(error.__cause__).update(attributes)
    return error


@pytest.mark.parametrize(
    ("vendor", "error", "retryable"),
    [
        ("postgresql", caused(OperationalError(), sqlstate="40001"), True),
        ("postgresql", caused(OperationalError(), sqlstate="40P01"), True),
        ("postgresql", caused(OperationalError(), sqlstate="23505"), False),
        ("postgresql", caused(OperationalError()), False),
        ("postgresql", caused(ValueError(), sqlstate="40001"), False),
        ("mysql", OperationalError(1020, "record has changed"), True),
        ("mysql", OperationalError(1205, "lock wait timeout"), True),
        ("mysql", OperationalError(1213, "deadlock"), True),
        ("mysql", OperationalError(1062, "duplicate"), False),
        ("mysql", OperationalError("1213", 1213), False),
        ("mysql", OperationalError(), False),
        ("sqlite", caused(OperationalError(), sqlite_errorcode=5), True),
        ("sqlite", caused(OperationalError(), sqlite_errorcode=517), True),  # SQLITE_BUSY_SNAPSHOT
        ("sqlite", caused(OperationalError(), sqlite_errorcode=6), True),
        ("sqlite", caused(OperationalError(), sqlite_errorcode=1), False),
        ("sqlite", caused(OperationalError()), False),
        ("oracle", caused(OperationalError(), sqlstate="40001"), False),
    ],
)
def test_what_each_database_says_when_another_writer_was_in_the_way(vendor, error, retryable, monkeypatch):
    monkeypatch.setattr(connection, "vendor", vendor, raising=False)

    assert is_retryable(error) is retryable


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("lock_after", "attempts", "atomic", "locked"),
    [
        (2, 5, True, [False, False, True, True, True]),
        (2, 2, True, [False, True]),  # the last one, whatever lock_after says
        (9, 3, True, [False, False, True]),
        (1, None, True, [False, True, True, True]),
        (None, 3, True, [False, False, False]),
        (0, 3, True, [False, True, True]),  # there is nothing to lock before the first conflict
    ],
)
def test_late_attempts_hold_the_lock(lock_after, attempts, atomic, locked):
    work = Attempts(using="default", backoff=Backoff(base=0, attempts=attempts), lock_after=lock_after, atomic=atomic)
    counter = Counter.objects.create()
    seen = []

    def attempt() -> None:
        seen.append(work.under_lock)
        if len(seen) < len(locked):
            stale_copy(counter.pk).save()

    work.run(attempt, sleep=lambda seconds: None)

    assert seen == locked


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_there_is_no_lock():
    work = Attempts(using="default", backoff=AT_ONCE, lock_after=0, atomic=False)
    work.conflicts = 3

    alone = work.under_lock
    with transaction.atomic():
        within = work.under_lock

    assert (alone, within) == (False, True)


@pytest.mark.django_db
def test_it_waits_between_attempts_as_the_backoff_says():
    slow = Backoff(base=1.0, factor=2.0, jitter="none", cap=60.0, attempts=4)
    work = Attempts(using="default", backoff=slow, lock_after=None, atomic=True)
    counter = Counter.objects.create()
    waits = []

    with pytest.raises(occ.Conflict) as caught:
        work.run(lambda: stale_copy(counter.pk).save(), sleep=waits.append)

    assert waits == [1.0, 2.0, 4.0]
    assert work.conflicts == 3
    assert caught.value is not work.last_error


def doomed() -> None:
    transaction.set_rollback(True)
    raise occ.Conflict(model=Counter, pk=1, expected=1, actual=2)


def locked_out() -> None:
    codes = {"postgresql": {"sqlstate": "40P01"}, "sqlite": {"sqlite_errorcode": 5}}
    raise caused(OperationalError(1213, "deadlock"), **codes.get(connection.vendor, {}))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("function", "note"),
    [
        (doomed, "Not retried: the surrounding transaction is marked for rollback. Repeat it as a whole."),
        (
            locked_out,
            "Not retried: the database gave up the surrounding transaction. Leave the atomic block and repeat it as a "
            "whole (retry_on_conflict around it does).",
        ),
    ],
)
def test_in_a_transaction_that_cannot_go_on_nothing_is_retried(function, note):
    calls = []

    def work() -> None:
        calls.append(1)
        function()

    with pytest.raises(DatabaseError) as caught, transaction.atomic():
        occ.retry_on_conflict(backoff=AT_ONCE, atomic=False)(work)()

    assert (calls, caught.value.__notes__) == ([1], [note])


def statements_before_each_attempt(lock_after):
    """Return how many statements had been sent when each of five attempts began its work; all but the last fail."""
    counter = Counter.objects.create()
    seen = []

    @occ.retry_on_conflict(backoff=Backoff(base=0, attempts=9), lock_after=lock_after)
    def work() -> None:
        seen.append(len(queries))
        (stale_copy(counter.pk) if len(seen) < 5 else Counter.objects.get(pk=counter.pk)).save()

    with CaptureQueriesContext(connection) as queries:
        work()
    return seen


@pytest.mark.django_db(transaction=True)
def test_the_row_is_locked_first_after_as_many_conflicts_as_lock_after_says(settings):
    settings.OCC = {"CONFLICT_SAMPLES": 0}  # some refusals would read the row once more
    never, after_three = statements_before_each_attempt(None), statements_before_each_attempt(3)

    more = [more - less for more, less in zip(after_three, never, strict=True)]
    # Before that they wait for their turn, which MySQL has to be told the end of.
    turns = {"sqlite": [0, 0, 0, 1, 2], "postgresql": [0, 1, 2, 4, 6], "mysql": [0, 1, 3, 5, 6]}
    assert more == turns[connection.vendor]


@pytest.mark.django_db(transaction=True)
def test_by_default_that_is_after_two(settings):
    settings.OCC = {"CONFLICT_SAMPLES": 0}
    assert statements_before_each_attempt(2) == statements_before_each_attempt(LOCK_AFTER)
    assert inspect.signature(occ.retry_on_conflict).parameters["lock_after"].default == LOCK_AFTER == 2


@pytest.mark.django_db(transaction=True)
def test_after_an_error_that_names_no_row_none_is_locked():
    errors = [locked_out, locked_out, lambda: None]

    @occ.retry_on_conflict(backoff=AT_ONCE, lock_after=0)
    def work() -> str:
        errors.pop(0)()
        return "done"

    assert (work(), errors) == ("done", [])


@pytest.mark.django_db(transaction=True)
def test_async_functions_wait_as_the_backoff_says_after_lock_errors_too(monkeypatch):
    waits, errors = [], [locked_out, locked_out, lambda: None]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    @occ.retry_on_conflict(backoff=Backoff(base=1.0, factor=2.0, jitter="none", attempts=5, cap=9.0))
    async def work() -> str:
        errors.pop(0)()
        return "done"

    monkeypatch.setattr("asyncio.sleep", sleep)

    assert (async_to_sync(work)(), waits) == ("done", [1.0, 2.0])


def test_what_cannot_be_repeated_is_refused_where_it_is_decorated():
    def generator():
        yield 1

    async def asynchronous_generator():
        yield 1

    for wrong in (generator, asynchronous_generator):
        with pytest.raises(TypeError, match="cannot repeat the generator"):
            occ.retry_on_conflict(wrong)
    with pytest.raises(TypeError, match="takes a function, not 5"):
        occ.retry_on_conflict(5)
    with pytest.raises(TypeError, match="put it under @classmethod, not above it"):
        occ.retry_on_conflict(classmethod(lambda cls: None))


@pytest.mark.django_db
def test_a_changed_key_is_not_retried():
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    def work(pk: int) -> None:
        calls.append(pk)
        counter = Counter.objects.get(pk=pk)
        counter.pk += 1000
        counter.save()

    with pytest.raises(occ.Conflict, match="primary key was changed"):
        work(Counter.objects.create().pk)

    assert len(calls) == 1


@pytest.mark.django_db
def test_the_last_conflict_is_raised_after_the_last_attempt():
    counter = Counter.objects.create()
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE, lock_after=None)
    def work() -> None:
        calls.append(1)
        stale_copy(counter.pk).save()

    with pytest.raises(occ.Conflict):
        work()

    assert len(calls) == 4


@pytest.mark.django_db(transaction=True)
def test_async_functions_are_retried_too():
    counter = Counter.objects.create()
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    async def work(pk: int) -> str:
        calls.append(1)
        instance = await Counter.objects.aget(pk=pk)
        if len(calls) < 3:
            await Counter.objects.filter(pk=pk).aupdate(value=len(calls))
        instance.value = 50
        await instance.asave()
        return "done"

    assert async_to_sync(work)(counter.pk) == "done"
    assert (len(calls), Counter.objects.get().value) == (3, 50)


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_that_was_overtaken_is_a_conflict_when_the_transaction_is_ours(second_session):
    if connection.vendor == "sqlite" and connection.transaction_mode == "IMMEDIATE":
        pytest.skip("IMMEDIATE transactions cannot be overtaken")
    counter = Counter.objects.create()
    seen = []

    @occ.retry_on_conflict(backoff=AT_ONCE, lock_after=None)
    def work() -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        instance = Counter.objects.get(pk=counter.pk)
        seen.append(instance.value)
        if len(seen) == 1:
            second_session.run(lambda: Counter.objects.filter(pk=counter.pk).update(value=100))
        instance.value += 1
        instance.save()

    work()

    assert (seen, Counter.objects.get().value) == ([0, 100], 101)


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_retried_when_the_transaction_is_ours(second_session):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one write lock, so no deadlock")
    one, two = Counter.objects.create(), Counter.objects.create()
    both_hold_one = threading.Barrier(2, timeout=30)
    calls = []

    @occ.retry_on_conflict(backoff=AT_ONCE, lock_after=None)
    def lock_both(first: int, second: int) -> None:
        calls.append(first)
        list(Counter.objects.select_for_update().filter(pk=first))
        if calls.count(first) == 1:
            both_hold_one.wait()
        Counter.objects.filter(pk=second).update(value=F("value") + 1)

    other = second_session.start(lambda: lock_both(two.pk, one.pk))
    lock_both(one.pk, two.pk)
    other.result(30)

    assert len(calls) == 3
    assert list(Counter.objects.values_list("value", flat=True)) == [1, 1]


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_inside_another_transaction_is_raised_and_loses_nothing_silently(second_session):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one write lock, so no deadlock")
    one, two = Counter.objects.create(), Counter.objects.create()
    both_hold_one = threading.Barrier(2, timeout=30)

    @occ.retry_on_conflict(backoff=AT_ONCE, lock_after=None)
    def lock_second(pk: int) -> None:
        both_hold_one.wait()
        Counter.objects.filter(pk=pk).update(value=F("value") + 1)

    def outer(first: int, second: int) -> str:
        try:
            with transaction.atomic():
                Counter.objects.filter(pk=first).update(value=F("value") + 10)
                lock_second(second)
        except OperationalError as error:
            return error.__notes__[0]
        return "committed"

    other = second_session.start(lambda: outer(two.pk, one.pk))
    outcomes = {outer(one.pk, two.pk), other.result(30)}

    assert outcomes == {
        "committed",
        "Not retried: the database gave up the surrounding transaction. Leave the atomic block and repeat it as a "
        "whole (retry_on_conflict around it does).",
    }
    assert sorted(Counter.objects.values_list("value", flat=True)) == [1, 10]


@pytest.mark.django_db(transaction=True)
def test_on_a_snapshot_that_cannot_move_the_conflict_is_raised_with_the_reason(second_session):
    if connection.vendor != "mysql":
        pytest.skip("only MySQL's UPDATE sees more than its SELECT")
    counter = Counter.objects.create()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    try:
        with pytest.raises((occ.Conflict, OperationalError)) as caught, transaction.atomic():
            Counter.objects.get(pk=counter.pk)
            second_session.run(lambda: Counter.objects.filter(pk=counter.pk).update(value=100))
            Counter.objects.mutate(counter.pk, lambda copy: setattr(copy, "value", 1), backoff=AT_ONCE)
    finally:
        connection.close()

    assert caught.value.__notes__[0].startswith("Not retried: ")
    assert Counter.objects.get().value == 100

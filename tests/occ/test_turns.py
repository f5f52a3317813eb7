"""Turns at a row that many write: who queues, for how long, and whom it holds up."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

import occ
from occ import turns
from occ.backoff import Backoff
from tests.library.models import Counter

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = Backoff(base=0, cap=0)


@pytest.fixture(autouse=True)
def no_turns_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_hot_until", {})


@pytest.fixture
def server() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no turns")


@pytest.fixture
def postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("is about PostgreSQL")


@pytest.fixture
def mysql() -> None:
    if connection.vendor != "mysql":
        pytest.skip("is about MySQL and MariaDB")


def waits(queries: CaptureQueriesContext) -> int:
    """Return how often a turn was waited for."""
    statements = [query["sql"] for query in queries]
    return sum("GET_LOCK" in sql or "advisory" in sql for sql in statements)


def in_thread(work: Callable[[], object]) -> None:
    """Run ``work`` in another session, to its end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert failures == []


def rival(pk: int) -> None:
    counter = Counter.objects.get(pk=pk)
    counter.value += 100
    counter.save()


def turns_before_each_attempt(pk: int, *, rivals: int = 0, **options: object) -> list[int]:
    """Mutate, with a rival in the first attempts; return how many turns had been taken when each of them ran."""
    taken = []

    def change(counter: Counter) -> None:
        taken.append(waits(queries))
        if len(taken) <= rivals:
            in_thread(lambda: rival(pk))
        counter.value += 1

    with CaptureQueriesContext(connection) as queries:
        Counter.objects.mutate(pk, change, backoff=AT_ONCE, **options)
    return taken


@contextmanager
def held_by_another(pk: int) -> Iterator[None]:
    """Have another session hold the turn of a row."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with turns.transaction_in_turn(Counter, pk, "default"):
            taken.set()
            assert done.wait(60)

    thread = threading.Thread(target=in_thread, args=(hold,))
    thread.start()
    try:
        assert taken.wait(60)
        yield
    finally:
        done.set()
        thread.join(60)


def test_who_was_refused_queues_then_locks_the_row(server):
    counter = Counter.objects.create()

    # The third attempt locks the row; InnoDB serves those who wait for that in order, PostgreSQL does not.
    third = 2 if connection.vendor == "postgresql" else 1
    assert turns_before_each_attempt(counter.pk, rivals=2) == [0, 1, third]
    counter.refresh_from_db()
    assert counter.value == 201


def test_for_a_while_first_attempts_at_that_row_queue_as_well(server, monkeypatch):
    hot, other = Counter.objects.create(), Counter.objects.create()
    turns_before_each_attempt(hot.pk, rivals=1)

    assert turns_before_each_attempt(hot.pk) == [1]
    assert turns_before_each_attempt(other.pk) == [0]
    later = turns.time.monotonic() + turns.HOT_SECONDS
    monkeypatch.setattr(turns.time, "monotonic", lambda: later)
    assert turns_before_each_attempt(hot.pk) == [0]


def test_whoever_wants_no_lock_takes_no_turn(server):
    counter = Counter.objects.create()

    assert turns_before_each_attempt(counter.pk, rivals=1, lock_after=None) == [0, 0]
    assert turns_before_each_attempt(counter.pk, lock_after=None) == [0]
    assert turns_before_each_attempt(counter.pk, atomic=False) == [0]


def test_within_a_transaction_there_are_no_turns():
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")

    with transaction.atomic():
        assert turns_before_each_attempt(counter.pk) == [0]


def test_sqlite_has_none():
    if connection.vendor != "sqlite":
        pytest.skip("is about SQLite")
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")

    assert turns_before_each_attempt(counter.pk) == [0]


def test_a_function_that_was_refused_queues_too(server):
    counter = Counter.objects.create()
    taken = []

    @occ.retry_on_conflict(backoff=AT_ONCE)
    def increment() -> None:
        taken.append(waits(queries))
        mine = Counter.objects.get(pk=counter.pk)
        if len(taken) == 1:
            in_thread(lambda: rival(counter.pk))
        mine.value += 1
        mine.save()

    with CaptureQueriesContext(connection) as queries:
        increment()

    assert taken == [0, 1]


def test_a_turn_that_does_not_come_is_done_without(server, monkeypatch):
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.05)
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")

    with held_by_another(counter.pk):
        assert turns_before_each_attempt(counter.pk) == [1]

    counter.refresh_from_db()
    assert counter.value == 1


def test_a_rival_that_is_waited_for_within_a_turn_comes_through(server, monkeypatch):
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.05)
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")
    values = []

    def add_hundred(theirs: Counter) -> None:
        theirs.value += 100

    def change(mine: Counter) -> None:
        values.append(mine.value)
        if len(values) == 1:
            in_thread(lambda: Counter.objects.mutate(counter.pk, add_hundred))
        mine.value += 1

    Counter.objects.mutate(counter.pk, change)

    counter.refresh_from_db()
    assert (values, counter.value) == ([0, 100], 101)


def test_the_limit_is_for_the_turn_alone(postgresql):
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")
    seen = []

    def look(counter: Counter) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            seen.append(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '7s'")
    try:
        Counter.objects.mutate(counter.pk, look)
    finally:
        connection.close()

    assert seen == ["7s"]


@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
def test_a_session_that_waits_less_waits_less_for_its_turn(postgresql, monkeypatch, setting):
    monkeypatch.setattr(turns, "TURN_SECONDS", 1000.0)
    with connection.cursor() as cursor:
        cursor.execute(f"SET {setting} = '100ms'")
    try:
        with (
            held_by_another(1),
            pytest.raises(turns.NoTurn),
            turns.transaction_in_turn(Counter, 1, "default"),
        ):
            pytest.fail("this is not its turn")
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == ("100ms",)
    finally:
        connection.close()


def test_other_errors_are_no_missing_turn(postgresql, monkeypatch):
    monkeypatch.setattr(turns, "TURN_SECONDS", 1000.0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (session,) = cursor.fetchone()

    def cancel() -> None:
        with connection.cursor() as cursor:
            cancelled = False
            while not cancelled:
                cursor.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
                    [session],
                )
                cancelled = cursor.fetchone() is not None

    with held_by_another(1):
        thread = threading.Thread(target=in_thread, args=(cancel,))
        thread.start()
        with (
            pytest.raises(turns.OperationalError, match="user request"),
            turns.transaction_in_turn(Counter, 1, "default"),
        ):
            pytest.fail("this is not its turn")
        thread.join(60)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_where_a_snapshot_is_older_than_the_wait_there_are_no_turns(postgresql, level):
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")
    with connection.cursor() as cursor:
        cursor.execute(f"SET default_transaction_isolation = '{level}'")
    try:
        with held_by_another(counter.pk):
            Counter.objects.mutate(counter.pk, lambda mine: setattr(mine, "value", 1))
        with (
            pytest.raises(turns.NoTurn),
            turns.transaction_in_turn(Counter, counter.pk, "default"),
        ):
            pytest.fail("there are none")
    finally:
        connection.close()

    counter.refresh_from_db()
    assert counter.value == 1


def test_an_attempt_that_locks_the_row_waits_for_its_turn_no_longer(server, monkeypatch):
    """Whoever has the turn may be waiting for this very writer, which no database can see."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.05)
    counter = Counter.objects.create()

    with held_by_another(counter.pk):
        taken = turns_before_each_attempt(counter.pk, rivals=1, lock_after=1)

    assert len(taken) == 2
    counter.refresh_from_db()
    assert counter.value == 101


def test_a_lock_within_a_transaction_waits_for_no_turn(postgresql):
    """It would hold the turn to the end of that transaction, and wait for it while it holds other rows."""
    counter = Counter.objects.create()

    with transaction.atomic():
        assert turns_before_each_attempt(counter.pk, rivals=1, lock_after=1) == [0, 0]


def test_without_autocommit_there_are_no_turns(server):
    """Its transaction is open already, holds what it holds, and does not end with the attempt."""
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")
    transaction.set_autocommit(False)
    try:
        assert turns_before_each_attempt(counter.pk) == [0]
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    counter.refresh_from_db()
    assert counter.value == 1


def test_what_runs_on_commit_holds_no_turn(server):
    with turns.transaction_in_turn(Counter, 1, "default"):

        def after() -> None:
            with held_by_another(1):
                pass

        transaction.on_commit(after)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_while_it_is_given_leaves_no_turn_behind(mysql, error):
    def interrupt(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if "GET_LOCK" in sql:
            raise error
        return result

    with (
        connection.execute_wrapper(interrupt),
        pytest.raises(error),
        turns.transaction_in_turn(Counter, 1, "default"),
    ):
        pytest.fail("it was interrupted")

    with held_by_another(1):
        pass


def test_a_turn_ends_with_its_transaction_whatever_ends_it(server):
    with pytest.raises(ZeroDivisionError), turns.transaction_in_turn(Counter, 1, "default"):
        raise ZeroDivisionError

    with held_by_another(1):
        pass


def test_where_named_locks_are_forbidden_there_are_no_turns(mysql, monkeypatch):
    monkeypatch.setattr(turns, "_LOCK_NAME", "NO_SUCH_FUNCTION(%s)")
    counter = Counter.objects.create()
    turns.note_refusal(Counter, counter.pk, "default")

    assert len(turns_before_each_attempt(counter.pk)) == 1
    counter.refresh_from_db()
    assert counter.value == 1
    with pytest.raises(turns.NoTurn), turns.transaction_in_turn(Counter, counter.pk, "default"):
        pytest.fail("there are none")


def test_a_turn_whose_session_was_lost_is_over(mysql):
    counter = Counter.objects.create()

    with pytest.raises(DatabaseError), turns.transaction_in_turn(Counter, counter.pk, "default"):
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            (session,) = cursor.fetchone()
        in_thread(lambda: kill(session))
        counter.save()

    with held_by_another(counter.pk):
        counter.save()


def kill(session: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"KILL {session}")


def test_not_more_rows_are_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(turns, "SIZE", 4)
    for pk in (1, 2, 3, 4, 1, 5):
        turns.note_refusal(Counter, pk, "default")

    assert [pk for pk in range(1, 6) if turns.is_hot(Counter, pk, "default")] == [1, 4, 5]


def test_models_that_share_a_row_share_its_turn():
    from tests.library.models import Book

    class Proxy(Book):
        class Meta:
            proxy = True
            app_label = "library"

    turns.note_refusal(Proxy, 1, "default")
    assert turns.is_hot(Book, "1", "default")
    assert not turns.is_hot(Counter, 1, "default")
    assert turns._number(Proxy, 1) == turns._number(Book, "1") != turns._number(Counter, 1)
    assert turns._number(Book, "\ud800") != turns._number(Book, 1)

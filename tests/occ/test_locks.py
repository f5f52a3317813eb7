"""The lock of the last attempts: who waits for it, and in which order they are served."""

import threading

import pytest
from django.db import connection, connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from occ import turns
from occ.backoff import Backoff
from occ.locks import lock_row
from tests.kit.waiting import eventually
from tests.library.models import Counter, Documentary

AT_ONCE = Backoff(base=0, cap=0, attempts=4)


@pytest.fixture
def postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("only on PostgreSQL may waiters overtake each other at a row")


@pytest.mark.django_db
def test_the_lock_comes_with_the_read_on_servers_and_costs_a_statement_on_sqlite():
    counter = Counter.objects.create()
    attempts = []

    def change(copy: Counter) -> None:
        attempts.append(copy.version)
        if len(attempts) == 1:
            Counter.objects.filter(pk=copy.pk).update(value=F("value") + 100)
        copy.value += 1

    with CaptureQueriesContext(connection) as caught:
        Counter.objects.mutate(counter.pk, change, backoff=AT_ONCE, lock_after=1)

    statements = [query["sql"] for query in caught.captured_queries]
    locking_reads = [sql for sql in statements if "FOR UPDATE" in sql and "value" in sql]
    assert bool(locking_reads) is (connection.vendor != "sqlite")
    assert not any("advisory" in sql for sql in statements)  # no turns within a transaction
    assert sum("1 = 0" in sql for sql in statements) == (connection.vendor == "sqlite")


@pytest.mark.django_db
def test_the_row_that_has_the_version_is_locked_too():
    if not connection.features.has_select_for_update:
        pytest.skip("SQLite locks all or nothing")
    film = Documentary.objects.create(title="Koyaanisqatsi")

    with CaptureQueriesContext(connection) as caught:
        lock_row(Documentary, film.pk, "default")

    (locking,) = (query["sql"] for query in caught.captured_queries)
    assert locking.endswith("FOR UPDATE")
    assert all(model._meta.db_table in locking for model in (Documentary, Documentary._occ_version_field.model))


@pytest.mark.django_db(transaction=True)
def test_those_who_wait_for_the_lock_are_served_in_the_order_in_which_they_came(postgresql, monkeypatch):
    monkeypatch.setattr(turns, "TURN_SECONDS", 1000.0)
    counter = Counter.objects.create()
    served: list[int] = []

    def queue_up(number: int) -> None:
        try:
            with turns.transaction_in_turn(Counter, counter.pk, "default"):
                lock_row(Counter, counter.pk, "default")
                served.append(number)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=queue_up, args=(number,)) for number in range(5)]
    with turns.transaction_in_turn(Counter, counter.pk, "default"):
        lock_row(Counter, counter.pk, "default")
        for number, thread in enumerate(threads, start=1):
            thread.start()
            eventually(lambda number=number: waiting() == number, timeout=60, what=f"{number} in the queue")
    for thread in threads:
        thread.join(60)

    assert served == [0, 1, 2, 3, 4]


def waiting() -> int:
    """Return how many sessions of this database wait for an advisory lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return int(cursor.fetchone()[0])

"""Counts reach the table: added up, never in somebody's transaction, kept while they cannot be stored."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from django.db import connection, transaction

import occ
from occ.contention.counting import Counters, counters
from occ.contention.flushing import Flusher
from occ.contention.models import HALF_HOUR, Bucket, Collision
from occ.testing import conflict_on_write
from tests.library.models import Book, Counter

from .conftest import NOON, Clock, stored


def test_flushes_add_up_in_a_minute_and_in_a_half_hour(flusher: Flusher, clock: Clock) -> None:
    for seconds, writes in ((0, 1), (59, 2), (60, 4)):
        clock.now = NOON + seconds
        counters.count_writes(Counter, writes)
        counters.count_conflicts(Counter, 1)
        flusher.flush()

    assert stored() == [
        (0, "library.Counter", "", "unknown", 3, 2),
        (60, "library.Counter", "", "unknown", 4, 1),
    ]
    assert stored(HALF_HOUR) == [(0, "library.Counter", "", "unknown", 7, 3)]


def test_the_counts_of_two_processes_add_up(flusher: Flusher, clock: Clock) -> None:
    other = Counters()
    counters.count_writes(Counter, 1)
    other.count_writes(Counter, 10)

    flusher.flush()
    Flusher(other, clock=clock).flush()

    assert stored() == [(0, "library.Counter", "", "unknown", 11, 0)]


def test_a_flush_is_one_statement_however_many_writers(flusher: Flusher, clock: Clock) -> None:
    flusher.flush()
    for name in ("a", "b", "c"):
        with occ.field_manager(name):
            counters.count_writes(Counter, 1)

    assert flusher.flush() == 6
    assert flusher.flush() == 0


def test_more_writers_than_one_statement_takes_are_all_stored(flusher: Flusher) -> None:
    for number in range(200):
        with occ.field_manager(f"job-{number:03}"):
            counters.count_writes(Counter, number)

    flusher.flush()

    assert [(row[3], row[4]) for row in stored()] == [(f"job-{number:03}", number) for number in range(200)]


def test_the_rollback_of_somebodys_transaction_takes_no_count_away(flusher: Flusher) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite lets one connection write at a time, so it stores counts after the transaction")
    counters.count_writes(Counter, 1)

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Counter.objects.create()
        flusher.flush()
        raise ZeroDivisionError

    assert (stored(), Counter.objects.count()) == ([(0, "library.Counter", "", "unknown", 1, 0)], 0)


def test_what_cannot_be_stored_is_kept_and_told_once(
    flusher: Flusher, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "occ")
    counters.count_writes(Counter, 1)
    with connection.schema_editor() as editor:
        editor.alter_db_table(Bucket, Bucket._meta.db_table, "occ_contention_elsewhere")
    try:
        flusher.flush()
        clock.now += 60
        counters.count_writes(Counter, 2)
        flusher.flush()
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(Bucket, "occ_contention_elsewhere", Bucket._meta.db_table)

    assert flusher.flush() == 4

    assert [record.getMessage()[:52] for record in caplog.records] == [
        "Counts of writes and conflicts cannot be stored (" + caplog.records[0].getMessage()[49:52]
    ]
    assert "migrated?" in caplog.records[0].getMessage()
    assert stored() == [
        (0, "library.Counter", "", "unknown", 1, 0),
        (60, "library.Counter", "", "unknown", 2, 0),
    ]


def test_old_buckets_are_deleted(flusher: Flusher, clock: Clock) -> None:
    for hours in (0, 7, 8 * 24 + 1):
        clock.now = NOON + hours * 3600
        counters.count_writes(Counter, 1)
        flusher.flush()
        if not hours:
            Collision.objects.create(digest="old", start=NOON, model="m", writer="w", mine="", theirs="", count=1)

    assert (stored(), stored(HALF_HOUR), Collision.objects.count()) == (
        [(193 * 3600, "library.Counter", "", "unknown", 1, 0)],
        [
            (7 * 3600, "library.Counter", "", "unknown", 1, 0),
            (193 * 3600, "library.Counter", "", "unknown", 1, 0),
        ],
        0,
    )


def test_crossing_the_line_is_logged_once_per_crossing(
    flusher: Flusher, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "occ")

    for writes, conflicts in ((185, 9), (0, 6), (0, 100), (10_000, 0), (0, 1_000)):
        counters.count_writes(Counter, writes)
        counters.count_conflicts(Counter, conflicts)
        flusher.flush()
        clock.now += 60

    assert [record.getMessage() for record in caplog.records] == [
        "library.Counter: 7.5 % of the writes of the last 5 minutes were refused (15 of 200), above the line of 5 %. "
        "'manage.py contention' tells which fields and writers collide, and what to do.",
        "library.Counter: 9.9 % of the writes of the last 5 minutes were refused (1115 of 11300), above the line of "
        "5 %. 'manage.py contention' tells which fields and writers collide, and what to do.",
    ]


def test_a_sample_tells_which_fields_collided(flusher: Flusher) -> None:
    book = Book.objects.create(title="Emma", stock=1)

    def reprice(copy: Book) -> None:
        if copy.stock == 1:  # the first attempt: somebody is faster
            Book.objects.filter(pk=copy.pk).update(stock=2)
        copy.price = 9

    with occ.field_manager("pricing"):
        Book.objects.mutate(book.pk, reprice, atomic=False)
    flusher.flush()

    assert list(Collision.objects.values_list("model", "writer", "mine", "theirs", "count")) == [
        ("library.Book", "pricing", "price", "stock", 1)
    ]


def test_a_plain_save_has_no_base_so_only_the_differences_are_known(flusher: Flusher) -> None:
    book = Book.objects.create(title="Emma", stock=1)
    Book.objects.filter(pk=book.pk).update(stock=2)
    book.title = "Persuasion"

    with pytest.raises(occ.Conflict):
        book.save()
    flusher.flush()

    assert list(Collision.objects.values_list("writer", "mine", "theirs")) == [("unknown", "stock,title", "?")]


def test_only_so_many_conflicts_are_looked_into(flusher: Flusher, settings: Any) -> None:
    settings.OCC = {"CONFLICT_SAMPLES": 2}
    counter = Counter.objects.create()

    with conflict_on_write(Counter, times=5):
        for _ in range(5):
            with pytest.raises(occ.Conflict):
                Counter.objects.get(pk=counter.pk).save()
    flusher.flush()

    assert sum(Collision.objects.values_list("count", flat=True)) == 2
    assert stored() == [(0, "library.Counter", "", "unknown", 0, 5)]


def test_a_thread_that_cannot_start_is_tried_again_at_the_next_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("django.core.mail.outbox")  # as outside of test runs
    counts = Counters()
    counts.on_first = Flusher(counts).start
    tries = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: tries.append(thread.name) or _refuse(thread))

    for name in ("a", "b"):
        with occ.field_manager(name):
            counts.count_writes(Counter, 1)

    assert tries == ["occ.contention"] * 2


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")

"""The scan: finds what no signal told of, and runs the differences only."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection

import reconcilers
from reconcilers import Reconciler, TerminalError
from reconcilers.models import Heartbeat, WorkItem
from reconcilers.reconciler import KEY_LENGTH
from reconcilers.registry import get
from reconcilers.testing import InlineRunner
from reconcilers.workqueue import scanner
from tests.library.models import Author, Book, Counter, Holding, Place, Shelf

pytestmark = pytest.mark.django_db


class Idle(Reconciler):
    model = Counter
    resync = None

    def reconcile(self, counter: Counter) -> None:
        if counter.value == 13:
            raise TerminalError("unlucky")


def behind_its_back(sql: str, *parameters: Any) -> None:
    """Write as another program would."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def ran_after_an_hour(runner: InlineRunner) -> list[str]:
    runner.advance(hours=1, minutes=1)
    return sorted(key for _, key, _ in runner.run())


def test_rows_written_past_the_orm_are_run_and_no_others() -> None:
    with InlineRunner(Idle) as runner:
        first, second, third = (str(Counter.objects.create().pk) for _ in range(3))
        runner.run()
        behind_its_back("UPDATE library_counter SET value = 4, version = version + 1 WHERE id = %s", int(second))

        at_once = runner.run()
        found = ran_after_an_hour(runner)
        again = ran_after_an_hour(runner)

    assert (at_once, found, again) == ([], [second], [])
    assert {first, third} == set(WorkItem.objects.filter(observed_version=1).values_list("key", flat=True))


def test_rows_inserted_and_deleted_past_the_orm_are_run_and_cleaned_up() -> None:
    cleaned = []

    class Cleaning(Idle):
        def gone(self, key: str) -> None:
            cleaned.append(key)

    with InlineRunner(Cleaning) as runner:
        doomed = Counter.objects.create()
        runner.run()
        behind_its_back("INSERT INTO library_counter (id, value, version) VALUES (1000001, 5, 1)")
        behind_its_back("DELETE FROM library_counter WHERE id = %s", doomed.pk)

        found = ran_after_an_hour(runner)

    assert found == sorted([str(doomed.pk), "1000001"])
    assert cleaned == [str(doomed.pk)]
    assert list(WorkItem.objects.values_list("key", flat=True)) == ["1000001"]


def test_a_restored_backup_with_lower_versions_is_run() -> None:
    with InlineRunner(Idle) as runner:
        counter = Counter.objects.create()
        counter.save()
        runner.run()
        behind_its_back("UPDATE library_counter SET version = 1 WHERE id = %s", counter.pk)

        found = ran_after_an_hour(runner)

    assert found == [str(counter.pk)]


def test_a_reconciler_added_later_gets_to_see_what_was_there_before() -> None:
    counters = [Counter.objects.create() for _ in range(3)]

    with InlineRunner(Idle) as runner:
        ran = sorted(key for _, key, _ in runner.run())

    assert ran == sorted(str(counter.pk) for counter in counters)


def test_parked_failing_and_delayed_keys_are_left_alone() -> None:
    class Failing(Idle):
        def reconcile(self, counter: Counter) -> None:
            if counter.value == 13:
                raise TerminalError("unlucky")
            raise RuntimeError

    with InlineRunner(Failing) as runner:
        parked = Counter.objects.create(value=13)
        Counter.objects.create(value=1)
        runner.run()
        behind_its_back("UPDATE library_counter SET version = version + 1")
        runner.advance(hours=1, minutes=1)
        ran = [outcome for _, _, outcome in runner.run()]

    assert ran == ["failed"]  # its own next try
    assert WorkItem.objects.get(parked_at__isnull=False).key == str(parked.pk)


def test_resync_scans_at_the_next_sweep() -> None:
    with InlineRunner(Idle) as runner:
        counter = Counter.objects.create()
        runner.run()
        behind_its_back("UPDATE library_counter SET version = version + 1")

        asked = reconcilers.resync("Idle")
        ran = runner.run()

    assert (asked, [key for _, key, _ in ran]) == (0, [str(counter.pk)])


def test_a_full_resync_is_spread_over_the_time_given_and_leaves_parked_keys_parked() -> None:
    with InlineRunner(Idle) as runner:
        Counter.objects.bulk_create(Counter(value=value) for value in (13, *[0] * 450))
        reconcilers.resync(Idle, everything=True)
        runner.run()

        asked = reconcilers.resync(Idle, everything=True, over=dt.timedelta(hours=2))
        ran = []
        for _ in range(5):
            ran.append(len(runner.run()))
            runner.advance(minutes=31)

    assert (asked, sum(ran)) == (451, 450)
    assert ran[0] < 450
    assert WorkItem.objects.filter(parked_at__isnull=False).count() == 1


def test_a_scan_goes_on_where_the_window_stopped_it(settings: Any) -> None:
    settings.RECONCILERS = {"NUDGE_WINDOW": 1}
    Counter.objects.bulk_create(Counter() for _ in range(1200))
    WorkItem.objects.all().delete()

    with InlineRunner(Idle, limit=5000) as runner:
        counts = [len(runner.run()) for _ in range(3)]

    assert counts == [1000, 200, 0]
    assert Heartbeat.objects.get(name="scan:Idle").cursor == ""


def test_a_scan_that_is_due_at_a_full_second_goes_on() -> None:
    Counter.objects.create()
    with InlineRunner(Idle) as runner:
        runner.run()
        scanner.want_scan("Idle", using="default")
        WorkItem.objects.all().delete()
        # As SQLite's clock writes it; Django writes no fraction, and would not find it by what it has read.
        behind_its_back(
            "UPDATE reconcilers_heartbeat SET due_at = %s WHERE name = 'scan:Idle'", "2026-01-01 00:00:00.000000"
        )

        ran = runner.run()

    assert len(ran) == 1


def test_keys_that_are_text_are_scanned_in_their_order() -> None:
    class OfShelves(Reconciler):
        model = Shelf
        resync = None

        def reconcile(self, shelf: Shelf) -> None: ...

    Shelf.objects.create(code="z-9")
    Shelf.objects.create(code="a-1")

    with InlineRunner(OfShelves) as runner:
        first = sorted(key for _, key, _ in runner.run())
        behind_its_back("UPDATE library_shelf SET rev = rev + 1 WHERE code = %s", "z-9")
        second = ran_after_an_hour(runner)

    assert (first, second) == (["a-1", "z-9"], ["z-9"])


def test_composite_keys_are_scanned_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfHoldings(Reconciler):
        model = Holding
        resync = None

        def reconcile(self, holding: Holding) -> None: ...

    monkeypatch.setattr(scanner, "CHUNK", 2)
    Holding.objects.bulk_create(Holding(branch=branch, number=number) for branch in (1, 2) for number in (9, 10, 11))

    with InlineRunner(OfHoldings) as runner:
        first = [key for _, key, _ in runner.run()]
        behind_its_back("UPDATE library_holding SET version = version + 1 WHERE branch = 2 AND number = 9")
        behind_its_back("DELETE FROM library_holding WHERE branch = 1 AND number = 10")
        second = ran_after_an_hour(runner)

    assert sorted(first) == sorted(f'["{branch}", "{number}"]' for branch in (1, 2) for number in (9, 10, 11))
    assert second == ['["1", "10"]', '["2", "9"]']


def test_a_scan_stops_and_goes_on_at_a_key_of_the_greatest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfPlaces(Reconciler):
        model = Place
        resync = None

        def reconcile(self, place: Place) -> None: ...

    moment = [0.0]

    def slow() -> float:
        moment[0] += 0.6 * scanner.BUDGET_SECONDS  # one chunk a pass
        return moment[0]

    monkeypatch.setattr(scanner, "CHUNK", 1)
    keys = sorted(letter * KEY_LENGTH for letter in "abc")
    Place.objects.bulk_create(Place(path=key) for key in keys)

    with InlineRunner(OfPlaces) as runner:
        WorkItem.objects.all().delete()
        scanner.want_scan("OfPlaces", using="default", everything=True)
        for _ in range(9):
            scanner.scan_if_due(get(OfPlaces), using="default", clock=slow)
        ran = sorted(key for _, key, _ in runner.run())

    assert ran == keys


def test_very_many_changes_of_a_watched_model_run_every_row(settings: Any) -> None:
    class OfBooks(Reconciler):
        model = Book
        resync = None
        watches = {Author: lambda author: list(author.books.values_list("pk", flat=True))}

        def reconcile(self, book: Book) -> None: ...

    with InlineRunner(OfBooks) as runner:
        book = Book.objects.create(title="It")
        Author.objects.bulk_create(Author(name=str(n)) for n in range(1001))
        runner.run()
        Author.objects.update(name="anonymous")

        ran = runner.run()

    assert [key for _, key, _ in ran] == [str(book.pk)]

"""What asks for runs: every way to change a row, in the transaction that changes it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.db import IntegrityError, transaction

import reconcilers
from occ.signals import ROWS_WRITTEN_LIMIT
from reconcilers import Reconciler
from reconcilers.models import WorkItem
from reconcilers.workqueue import sweep
from tests.library.models import Author, Book, Chapter, Counter, Documentary, Film, FilmProxy, Medium, Shelf, Tag
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


def idle(model: Any, register: Register, **attributes: Any) -> type[Reconciler]:
    return register(type("Idle", (Reconciler,), {"model": model, "reconcile": lambda self, obj: None, **attributes}))


def requested() -> list[str]:
    """Return the keys asked for since the last call, sorted."""
    keys = sorted(WorkItem.objects.values_list("key", flat=True))
    WorkItem.objects.all().delete()
    return keys


def test_saves_and_deletes_ask_for_their_row(register: Register) -> None:
    idle(Counter, register)

    counter = Counter.objects.create()
    key = str(counter.pk)
    created = requested()
    counter.save()
    saved = requested()
    Counter.objects.mutate(counter.pk, lambda fresh: setattr(fresh, "value", 5))
    mutated = requested()
    counter.refresh_from_db()
    counter.delete()

    assert (created, saved, mutated, requested()) == ([key], [key], [key], [key])


def test_writes_of_querysets_ask_for_the_rows_they_wrote(register: Register) -> None:
    idle(Counter, register)
    counters = [Counter.objects.create() for _ in range(3)]
    keys = sorted(str(counter.pk) for counter in counters)
    requested()

    Counter.objects.filter(pk__in=[counters[0].pk, counters[1].pk]).update(value=1)
    updated = requested()
    fresh = list(Counter.objects.all())
    for counter in fresh:
        counter.value = 7
    Counter.objects.bulk_update(fresh, ["value"])
    bulk_updated = requested()
    Counter.objects.all().delete()

    assert updated == sorted([str(counters[0].pk), str(counters[1].pk)])
    assert bulk_updated == keys
    assert requested() == keys


def test_a_write_of_very_many_rows_asks_for_a_scan_that_finds_them(register: Register, settings: Any) -> None:
    settings.RECONCILERS = {"NUDGE": False, "NUDGE_WINDOW": 5000}
    idle(Counter, register)
    Counter.objects.bulk_create(Counter() for _ in range(ROWS_WRITTEN_LIMIT + 1))
    sweep()
    WorkItem.objects.update(due_at=None, observed_version=1)

    Counter.objects.update(value=1)
    asked_at_once = WorkItem.objects.exclude(due_at=None).count()
    sweep(clock=lambda: 0.0)  # without its time limit

    assert asked_at_once == 0
    assert WorkItem.objects.exclude(due_at=None).count() == ROWS_WRITTEN_LIMIT + 1


@pytest.mark.parametrize("collected", [True, False])
def test_inserts_of_many_rows_ask_for_each(register: Register, collected: bool) -> None:
    idle(Shelf, register)
    shelves = [Shelf(code="a"), Shelf(code="b")]

    with transaction.atomic(), reconcilers.collect() if collected else nullcontext():
        Shelf.objects.bulk_create(shelves)
    inserted = requested()
    Shelf.objects.bulk_create([Shelf(code="b"), Shelf(code="c")], ignore_conflicts=True)

    assert (inserted, requested()) == (["a", "b"], ["b", "c"])


def test_inserts_whose_keys_the_database_does_not_tell_are_found_by_the_next_sweep(register: Register) -> None:
    idle(Book, register)
    sweep()

    Book.objects.bulk_create([Book(title="It")], ignore_conflicts=True)
    at_once = requested()
    sweep()

    assert (at_once, requested()) == ([], [str(Book.objects.get().pk)])


def test_inserts_that_fail_ask_for_nothing_and_leave_their_objects_new(register: Register) -> None:
    def refuse(chapter: Chapter) -> int:
        raise RuntimeError("refused by a watch")

    idle(Book, register, watches={Chapter: refuse})
    book = Book.objects.create(title="It")
    requested()
    chapter = Chapter(book=book, title="1")

    with pytest.raises(RuntimeError):
        Chapter.objects.bulk_create([chapter])

    assert (Chapter.objects.count(), requested(), chapter._state.adding) == (0, [], True)


def test_a_rolled_back_write_asks_for_nothing(register: Register) -> None:
    idle(Counter, register)

    with pytest.raises(IntegrityError), transaction.atomic():
        Counter.objects.create()
        raise IntegrityError

    assert requested() == []


def test_a_save_that_fails_after_its_request_takes_the_request_with_it(register: Register) -> None:
    idle(Counter, register)
    from django.db.models.signals import post_save

    def refuse(**kwargs: Any) -> None:
        raise RuntimeError("refused by a receiver")

    post_save.connect(refuse, sender=Counter)
    try:
        with pytest.raises(RuntimeError):
            Counter.objects.create()
    finally:
        post_save.disconnect(refuse, sender=Counter)

    assert (Counter.objects.count(), requested()) == (0, [])


def test_many_to_many_changes_ask_for_the_row_from_both_sides(register: Register) -> None:
    idle(Book, register)
    book, tag = Book.objects.create(title="It"), Tag.objects.create(name="horror")
    key = [str(book.pk)]
    requested()

    book.tags.add(tag)
    added = requested()
    tag.book_set.remove(book)
    removed = requested()
    tag.book_set.add(book)
    added_from_there = requested()
    tag.book_set.clear()
    cleared_from_there = requested()
    book.tags.set([tag])
    set_here = requested()
    book.tags.clear()

    assert [added, removed, added_from_there, cleared_from_there, set_here, requested()] == [key] * 6


def test_children_and_proxies_ask_for_the_row_they_are(register: Register) -> None:
    idle(Film, register)

    film = Film.objects.create(title="M")
    FilmProxy.objects.get(pk=film.pk).save()
    documentary = Documentary.objects.create(title="Shoah")
    Medium.objects.create(title="no film")

    assert requested() == sorted([str(film.pk), str(documentary.pk)])


def test_watched_models_ask_for_the_rows_that_they_concern(register: Register) -> None:
    idle(Book, register, watches={Chapter: lambda chapter: chapter.book_id, Author: _books_of})
    author = Author.objects.create(name="King")
    books = [Book.objects.create(title="It", author=author), Book.objects.create(title="Carrie", author=author)]
    requested()

    chapter = Chapter.objects.create(book=books[0], title="1")
    created = requested()
    Chapter.objects.update(pages=3)
    updated = requested()
    chapter.refresh_from_db()
    chapter.delete()
    deleted = requested()
    author.save()

    first = [str(books[0].pk)]
    assert (created, updated, deleted) == (first, first, first)
    assert requested() == sorted(str(book.pk) for book in books)


def _books_of(author: Author) -> list[int]:
    return list(author.books.values_list("pk", flat=True))


def test_keys_that_are_no_numbers(register: Register) -> None:
    idle(Shelf, register)

    Shelf.objects.create(code="B-7")
    Shelf.objects.create(code="b-8")

    assert requested() == ["B-7", "b-8"]


def test_collect_asks_once_at_the_end_of_the_block(register: Register) -> None:
    idle(Counter, register)

    with transaction.atomic():
        with reconcilers.collect():
            counters = [Counter.objects.create() for _ in range(3)]
            counters[0].save()
            within = WorkItem.objects.count()
        after = WorkItem.objects.count()

    assert (within, after) == (0, 3)


def test_collect_asks_even_when_the_block_raises_and_the_caller_goes_on(register: Register) -> None:
    idle(Counter, register)

    with transaction.atomic(), pytest.raises(RuntimeError), reconcilers.collect():
        counter = Counter.objects.create()
        raise RuntimeError

    assert requested() == [str(counter.pk)]


def test_collect_outside_a_transaction_is_refused(register: Register) -> None:
    idle(Counter, register)

    refused = pytest.raises(transaction.TransactionManagementError, match="with transaction.atomic")
    with refused, reconcilers.collect():
        pass

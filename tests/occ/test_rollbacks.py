"""The version in memory is right again after a rollback, whole or in part."""

import copy
import gc

import pytest
from django.db import connection, transaction

import occ
from occ.journal import open_journals
from tests.library.models import Book, Counter, Film

pytestmark = pytest.mark.django_db(transaction=True)


class Undo(Exception):
    pass


def test_a_save_that_was_rolled_back_can_be_saved_again():
    counter = Counter.objects.create()

    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        assert counter.version == 2
        raise Undo

    assert counter.version == 1
    counter.save()
    assert Counter.objects.get().version == 2


def test_a_rival_who_reaches_the_rolled_back_number_is_not_overwritten():
    counter = Counter.objects.create()
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        raise Undo

    Counter.objects.mutate(counter.pk, lambda rival: setattr(rival, "value", 7))
    with pytest.raises(occ.Conflict):
        counter.save()

    assert Counter.objects.get().value == 7


def test_nested_blocks_rewind_to_their_own_start():
    counter = Counter.objects.create()

    with transaction.atomic():
        counter.save()
        with pytest.raises(Undo), transaction.atomic():
            counter.save()
            counter.save()
            raise Undo
        assert counter.version == 2
        counter.save()

    assert counter.version == Counter.objects.get().version == 3


def test_savepoints_made_by_hand_rewind_too():
    counter, other = Counter.objects.create(), Counter.objects.create()

    with transaction.atomic():
        first = connection.savepoint()
        counter.save()
        second = connection.savepoint()
        counter.save()
        other.save()
        transaction.savepoint_rollback(second)
        assert (counter.version, other.version) == (2, 1)
        other.save()
        transaction.savepoint_rollback(first)
        assert (counter.version, other.version) == (1, 1)
        counter.save()

    assert sorted(Counter.objects.values_list("version", flat=True)) == [1, 2]


def test_a_first_insert_that_was_rolled_back_inserts_again():
    counter = Counter(value=3)
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        counter.save()
        raise Undo

    assert (counter.version, counter._state.adding) == (0, True)
    counter.save()

    assert Counter.objects.values_list("value", "version").get() == (3, 1)


def test_a_block_marked_for_rollback_rewinds():
    counter = Counter.objects.create()

    with transaction.atomic():
        counter.save()
        transaction.set_rollback(True)

    assert counter.version == 1


def test_a_connection_lost_in_the_block_rewinds():
    counter = Counter.objects.create()

    with transaction.atomic():
        counter.save()
        connection.close()

    assert counter.version == 1
    assert Counter.objects.get().version == 1


def test_a_commit_keeps_the_version_and_the_journal_forgets():
    counter = Counter.objects.create()
    with transaction.atomic():
        counter.save()

    with pytest.raises(Undo), transaction.atomic():
        raise Undo

    assert counter.version == 2
    assert connection._occ_journal.entries == []


def test_a_transaction_managed_by_hand_rewinds():
    counter = Counter.objects.create()

    transaction.set_autocommit(False)
    try:
        counter.save()
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)

    assert counter.version == 1


@pytest.mark.django_db(transaction=True)
def test_a_bulk_create_in_a_transaction_managed_by_hand_rewinds():
    counters = [Counter(), Counter()]

    transaction.set_autocommit(False)
    try:
        Counter.objects.bulk_create(counters)
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)

    assert [(counter.version, counter._state.adding) for counter in counters] == [(0, True), (0, True)]


def test_a_hierarchy_that_failed_half_way_is_at_its_old_version():
    film = Film.objects.create(title="Blue", minutes=80)

    film.minutes = "many"
    with pytest.raises(ValueError, match="many"):
        film.save()

    assert film.version == 1
    film.minutes = 90
    film.save()
    assert Film.objects.values_list("minutes", "version").get() == (90, 2)


def test_the_journal_keeps_no_object_alive():
    with transaction.atomic():
        for number in range(10):
            Book.objects.create(title=str(number)).save()
        gc.collect()

        alive = [reference for reference, *_ in connection._occ_journal.entries if reference() is not None]
        assert alive == []


def rival_reaches(version, counter, **values):
    """Have somebody else bring the row of ``counter`` to ``version``."""
    while Counter.objects.get(pk=counter.pk).version < version:
        Counter.objects.mutate(counter.pk, lambda row: vars(row).update(value=row.value + 10))


def undo_after(write):
    """Read the one counter after ``write`` in a transaction that is rolled back."""
    with pytest.raises(Undo), transaction.atomic():
        write()
        read = Counter.objects.get()
        raise Undo
    return read


WRITES = {
    "save": lambda counter: counter.save(),
    "update": lambda counter: Counter.objects.update(value=1),
    "bulk_update": lambda counter: Counter.objects.bulk_update([counter], ["value"]),
    "mutate": lambda counter: Counter.objects.mutate(counter.pk, lambda row: vars(row).update(value=5)),
    "upsert": lambda counter: Counter.objects.bulk_create(
        [Counter(pk=counter.pk, value=3)], update_conflicts=True, update_fields=["value"], **UNIQUE
    ),
}
UNIQUE = {} if connection.vendor == "mysql" else {"unique_fields": ["id"]}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("again", ["save", "delete", "bulk_update"])
def test_an_object_read_after_a_write_that_was_undone_is_refused(write, again):
    counter = Counter.objects.create()
    read = undo_after(lambda: WRITES[write](counter))
    rival_reaches(read.version, counter)

    with pytest.raises(occ.Conflict) as caught:
        if again == "bulk_update":
            Counter.objects.bulk_update([read], ["value"])
        else:
            getattr(read, again)()

    conflict = getattr(caught.value, "conflicts", [caught.value])[0]
    assert "shows what never was" in str(conflict)
    assert (conflict.pk, conflict.expected, conflict.actual, conflict.reason) == (counter.pk, 2, 2, "changed")
    assert Counter.objects.get().value == 10


def test_bulk_update_skips_an_object_that_shows_an_undone_write():
    counter, other = Counter.objects.create(), Counter.objects.create()
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        read = list(Counter.objects.order_by("pk"))
        raise Undo
    rival_reaches(2, counter)

    assert Counter.objects.bulk_update(read, ["value"], on_conflict="skip") == [read[0]]

    assert list(Counter.objects.order_by("pk").values_list("version", flat=True)) == [2, other.version + 1]


def test_an_object_of_a_row_that_was_never_inserted_does_not_answer_to_its_successor():
    with pytest.raises(Undo), transaction.atomic():
        Counter.objects.create(pk=7)
        read = Counter.objects.get()
        raise Undo
    Counter.objects.create(pk=7, value=10)

    with pytest.raises(occ.Conflict, match="never was"):
        read.save()

    assert Counter.objects.get().value == 10


def test_a_savepoint_rolled_back_refuses_what_was_read_in_it_alone():
    counter = Counter.objects.create()

    with transaction.atomic():
        counter.save()
        before = Counter.objects.get()
        with pytest.raises(Undo), transaction.atomic():
            early = Counter.objects.get()
            counter.save()
            late = Counter.objects.get()
            raise Undo
        Counter.objects.update(value=10)
        with pytest.raises(occ.Conflict, match="never was"):
            late.save()
        counter.refresh_from_db()
        with pytest.raises(occ.Conflict, match="read at version 2, but the row is at version 3"):
            early.save()
        with pytest.raises(occ.Conflict, match="read at version 2, but the row is at version 3"):
            before.save()
        counter.save()

    assert Counter.objects.values_list("value", "version").get() == (10, 4)


def test_an_outer_rollback_reaches_what_an_inner_one_spared():
    counter = Counter.objects.create()
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        with pytest.raises(Undo), transaction.atomic():
            read = Counter.objects.get()
            raise Undo
        raise Undo
    rival_reaches(2, counter)

    with pytest.raises(occ.Conflict, match="never was"):
        read.save()


def test_an_object_whose_row_nobody_wrote_can_be_saved_after_the_rollback():
    counter, other = Counter.objects.create(), Counter.objects.create()
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        read = Counter.objects.get(pk=other.pk)
        Counter.objects.filter(pk=other.pk).update(value=1)
        raise Undo

    read.save()

    assert Counter.objects.get(pk=other.pk).version == 2


def test_a_commit_lets_what_was_read_be_saved():
    counter = Counter.objects.create()
    with transaction.atomic():
        counter.save()
        read = Counter.objects.get()

    with pytest.raises(Undo), transaction.atomic():
        Counter.objects.create()
        raise Undo

    read.save()
    assert read.version == 3


def test_reading_again_after_the_rollback_makes_the_object_good():
    counter = Counter.objects.create()
    read, other = undo_after(counter.save), undo_after(counter.save)

    read.refresh_from_db(fields=["value"])
    with pytest.raises(occ.Conflict, match="never was"):
        read.save()
    read.refresh_from_db()
    read.save()
    other.refresh_from_db(fields=["version"])
    other.save()

    assert Counter.objects.get().version == other.version == 3


def test_a_refresh_in_the_block_is_taken_back_with_it():
    counter, other = Counter.objects.create(), Counter.objects.create()
    fresh = Counter.objects.get(pk=other.pk)
    with pytest.raises(Undo), transaction.atomic():
        counter.save()
        counter.refresh_from_db()
        Counter.objects.filter(pk=other.pk).update(value=1)
        fresh.refresh_from_db()
        raise Undo

    counter.save()
    assert counter.version == 2
    with pytest.raises(occ.Conflict, match="never was"):
        fresh.save()


def test_a_copy_saved_as_new_is_no_longer_what_it_was_read_from():
    counter = Counter.objects.create()
    read = undo_after(counter.save)

    copied = copy.deepcopy(read)
    with pytest.raises(occ.Conflict, match="never was"):
        copied.save()
    read.pk, read._state.adding = None, True
    read.save()
    read.save()

    assert sorted(Counter.objects.values_list("version", flat=True)) == [1, 2]


def test_the_part_with_the_version_tells_whether_a_child_was_undone():
    film = Film.objects.create(title="Blue", minutes=80)
    with pytest.raises(Undo), transaction.atomic():
        film.save()
        read = Film.objects.get()
        raise Undo
    Film.objects.mutate(film.pk, lambda row: vars(row).update(minutes=90))

    with pytest.raises(occ.Conflict, match="never was"):
        read.save(update_fields=["minutes"])


def test_reads_without_a_write_before_them_note_nothing():
    Counter.objects.create()

    with transaction.atomic():
        first = Counter.objects.get()
        first.save()
        second, third = Counter.objects.get(), Counter.objects.get()

    assert "occ_reading" not in vars(first._state)
    assert second._state.occ_reading is third._state.occ_reading
    assert open_journals == {}

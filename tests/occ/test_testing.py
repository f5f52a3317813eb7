"""The helpers that users test their own conflict handling with."""

import pytest

import occ
from occ.testing import (
    Session,
    assert_conflict,
    assert_no_conflict,
    conflict_on_write,
    race,
    watch_conflicts,
    write_behind,
)
from tests.library.models import Author, Book, Counter

pytest_plugins = ["occ.testing.plugin"]
pytestmark = pytest.mark.django_db


def add_one(counter: Counter) -> None:
    counter.value += 1


@pytest.mark.parametrize("changes", [{}, {"value": 7}])
def test_write_behind_makes_an_object_stale(changes):
    counter = Counter.objects.create()

    write_behind(counter, **changes)

    assert counter.version == 1
    assert Counter.objects.values_list("value", "version").get() == (changes.get("value", 0), 2)
    with pytest.raises(occ.Conflict):
        counter.save()


def test_write_behind_a_row_that_is_gone_says_so():
    counter = Counter.objects.create()
    Counter.objects.all().delete()

    with pytest.raises(LookupError, match="has no row to write behind"):
        write_behind(counter)


def test_the_nth_write_meets_a_real_conflict(occ_conflicts):
    counter = Counter.objects.create()

    with conflict_on_write(Counter, nth=2):
        counter.save()
        with pytest.raises(occ.Conflict):
            counter.save()

    assert [(c.pk, c.expected, c.actual) for c in occ_conflicts] == [(counter.pk, 2, 3)]


def test_code_that_retries_gets_through_the_conflicts_it_meets(occ_conflicts):
    counter = Counter.objects.create()

    with conflict_on_write(Counter, times=3):
        Counter.objects.mutate(counter.pk, add_one)

    assert (Counter.objects.get().value, len(occ_conflicts)) == (1, 3)


def test_other_models_and_new_objects_are_left_alone():
    with conflict_on_write(Book), assert_no_conflict():
        counter = Counter.objects.create()
        counter.save()
        Book.objects.create(title="Emma")


def test_deletes_are_writes_too():
    counter = Counter.objects.create()

    with conflict_on_write(Counter), assert_conflict(Counter, pk=counter.pk) as met:
        counter.delete()

    assert [c.operation for c in met] == ["delete"]


def test_assert_conflict_fails_when_there_is_none_or_another():
    counter, author = Counter.objects.create(), Author.objects.create(name="Jane")
    write_behind(counter)

    with pytest.raises(AssertionError, match="none was raised"), assert_conflict():
        author.save()
    with pytest.raises(AssertionError, match="Expected a conflict about library.Author, met: save of"):  # noqa: SIM117
        with assert_conflict(Author):
            counter.save()


def test_assert_no_conflict_fails_on_a_retried_one_too():
    counter = Counter.objects.create()

    with pytest.raises(AssertionError, match="Expected no conflict, met 1: save of library.Counter"):  # noqa: SIM117
        with assert_no_conflict(), conflict_on_write(Counter):
            Counter.objects.mutate(counter.pk, add_one)


def test_watch_conflicts_can_look_at_one_model_alone():
    counter = Counter.objects.create()
    write_behind(counter)

    with watch_conflicts(Book) as books, watch_conflicts(Counter) as counters, pytest.raises(occ.Conflict):
        counter.save()

    assert (len(books), len(counters)) == (0, 1)


@pytest.mark.parametrize("wrong", [{"nth": 0}, {"times": 0}])
def test_wrong_counts_are_named(wrong):
    with pytest.raises(ValueError, match="nth and times must be 1 or more"), conflict_on_write(Counter, **wrong):
        pass


@pytest.mark.django_db(transaction=True)
def test_a_session_is_another_connection(occ_second_session):
    counter = Counter.objects.create()

    occ_second_session.run(lambda: Counter.objects.mutate(counter.pk, add_one))

    with pytest.raises(occ.Conflict):
        counter.save()
    with Session() as third, pytest.raises(ZeroDivisionError):
        third.run(lambda: 1 // 0)


@pytest.mark.django_db(transaction=True)
def test_a_race_tells_each_outcome_in_order():
    counter = Counter.objects.create()
    copies = [Counter.objects.get() for _ in range(4)]

    outcomes = race(*(copy.save for copy in copies), lambda: "done")

    assert outcomes[-1] == "done"
    assert sorted(type(outcome).__name__ for outcome in outcomes[:-1]) == ["Conflict"] * 3 + ["NoneType"]
    assert Counter.objects.get(pk=counter.pk).version == 2

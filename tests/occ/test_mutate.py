"""mutate(): a fresh copy each time, one guarded write, nothing when nothing changed."""

import copy
import pickle

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.db.models import Count, F

import occ
from occ.backoff import Backoff
from tests.library.models import Book, Counter, Holding, Member, Shelf

AT_ONCE = Backoff(base=0, cap=0, attempts=5)


def move(counter: Counter) -> None:
    """Write the row as a rival would, behind the back of whoever has read it."""
    Counter.objects.filter(pk=counter.pk).update(value=F("value") + 100)


@pytest.mark.django_db
def test_what_fn_changes_is_written_in_one_guarded_update(django_assert_num_queries):
    book = Book.objects.create(title="Emma", stock=1)
    before = book.updated_at

    def sell(copy: Book) -> None:
        copy.stock -= 1

    with django_assert_num_queries(4) as queries:  # SAVEPOINT, SELECT, UPDATE, RELEASE
        sold = Book.objects.mutate(book.pk, sell)

    assert (sold.stock, sold.version) == (0, 2)
    update = queries[2]["sql"]
    assert "stock" in update and "updated_at" in update and "title" not in update.split("WHERE")[0]
    assert Book.objects.get().updated_at > before


@pytest.mark.django_db
def test_nothing_changed_writes_nothing():
    book = Book.objects.create(title="Emma", price="5.00", details={"a": [1]})

    def touch(copy: Book) -> None:
        copy.price = "5.00"  # text for the same number
        copy.details = {"a": [1]}
        copy.title = "Emma"

    assert Book.objects.mutate(book.pk, touch).version == 1
    assert Book.objects.get().version == 1


@pytest.mark.django_db
def test_a_change_inside_a_json_value_counts():
    book = Book.objects.create(title="Emma", details={"pages": [1]})

    Book.objects.mutate(book.pk, lambda copy: copy.details["pages"].append(2))

    assert Book.objects.values_list("details", "version").get() == ({"pages": [1, 2]}, 2)


@pytest.mark.django_db
def test_expressions_are_written():
    counter = Counter.objects.create(value=1)

    Counter.objects.mutate(counter.pk, lambda copy: setattr(copy, "value", F("value") + 1))

    assert Counter.objects.get().value == 2


@pytest.mark.django_db
def test_a_conflict_runs_fn_again_on_a_newer_copy_never_on_the_same():
    counter = Counter.objects.create()
    seen = []

    def add(copy: Counter) -> None:
        seen.append((copy, copy.value))
        if len(seen) < 3:
            move(copy)
        copy.value += 1

    # Without a transaction around the attempt, or the rival's write would be undone with it.
    saved = Counter.objects.mutate(counter.pk, add, backoff=AT_ONCE, atomic=False)

    assert [value for _, value in seen] == [0, 100, 200]
    assert len({id(copy) for copy, _ in seen}) == 3
    assert (saved.value, Counter.objects.get().value) == (201, 201)


@pytest.mark.django_db
def test_attempts_are_bounded_and_the_last_conflict_is_raised():
    counter = Counter.objects.create()
    calls = []

    def always_late(copy: Counter) -> None:
        calls.append(copy.version)
        move(copy)
        copy.value += 1

    with pytest.raises(occ.Conflict) as caught:
        Counter.objects.mutate(counter.pk, always_late, backoff=Backoff(base=0, cap=0, attempts=3))

    assert len(calls) == 3
    assert (caught.value.expected, caught.value.pk) == (calls[-1], counter.pk)
    assert caught.value.__notes__ == [
        "fn itself wrote this row past the copy that it was given, through another object or a queryset. Change the "
        "copy; mutate writes it."
    ]


@pytest.mark.django_db
def test_a_missing_row_is_does_not_exist():
    with pytest.raises(Counter.DoesNotExist):
        Counter.objects.mutate(10**6, lambda copy: None)


@pytest.mark.django_db
def test_the_filters_of_the_queryset_apply():
    counter = Counter.objects.create(value=1)

    with pytest.raises(Counter.DoesNotExist):
        Counter.objects.filter(value__gt=5).mutate(counter.pk, lambda copy: None)


@pytest.mark.django_db
def test_fn_may_save_by_hand_without_a_second_write():
    counter = Counter.objects.create()

    def by_hand(copy: Counter) -> None:
        copy.value = 5
        copy.save()

    assert Counter.objects.mutate(counter.pk, by_hand).version == 2
    assert Counter.objects.values_list("value", "version").get() == (5, 2)


@pytest.mark.django_db
def test_fn_may_save_by_hand_and_change_more():
    counter = Book.objects.create(title="Emma")

    def by_hand(copy: Book) -> None:
        copy.stock = 5
        copy.save(update_fields=["stock"])
        copy.title = "Persuasion"

    Book.objects.mutate(counter.pk, by_hand)
    assert Book.objects.values_list("title", "stock", "version").get() == ("Persuasion", 5, 3)


@pytest.mark.django_db
def test_fn_must_not_change_the_key():
    counter = Counter.objects.create()

    with pytest.raises(ValueError, match="fn changed the primary key of library.Counter"):
        Counter.objects.mutate(counter.pk, lambda copy: setattr(copy, "pk", 10**6))

    assert Counter.objects.values_list("pk", "version").get() == (counter.pk, 1)


@pytest.mark.django_db
def test_fn_must_not_delete_its_copy_nor_be_async():
    counter = Counter.objects.create()

    async def later(copy: Counter) -> None:
        copy.value = 9

    with pytest.raises(ValueError, match="fn deleted its copy of library.Counter"):
        Counter.objects.mutate(counter.pk, lambda copy: copy.delete())
    with pytest.raises(TypeError, match="fn must be an ordinary function"):
        Counter.objects.mutate(counter.pk, later)

    assert Counter.objects.values_list("value", "version").get() == (0, 1)


@pytest.mark.django_db
def test_what_it_returns_can_be_pickled_and_copied():
    book = Book.objects.create(title="Emma", details={"a": [1]})

    saved = Book.objects.mutate(book.pk, lambda copy: setattr(copy, "stock", 3))

    for twin in (pickle.loads(pickle.dumps(saved)), copy.deepcopy(saved)):
        assert (twin.stock, twin.version, twin.details) == (3, 2, {"a": [1]})
        assert twin._state.occ_pk == book.pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shape", ["joined", "counted", "distinct", "filtered"])
def test_querysets_that_cannot_be_read_for_update_are_locked_all_the_same(second_session, shape):
    book = Book.objects.create(title="Emma")
    rows = {
        "joined": Book.objects.select_related("author", "editor"),
        "counted": Book.objects.annotate(number=Count("chapters")),
        "distinct": Book.objects.distinct(),
        "filtered": Book.objects.filter(author__name=None),
    }[shape]
    attempts = []

    def sell(copy: Book) -> None:
        attempts.append(copy.stock)
        if len(attempts) <= 2 and connection.vendor != "sqlite":
            second_session.run(lambda: Book.objects.filter(pk=book.pk).update(stock=F("stock") + 100))
        copy.stock += 1

    rows.mutate(book.pk, sell, backoff=AT_ONCE)

    assert Book.objects.get().stock == 1 + 100 * (len(attempts) - 1)


@pytest.mark.django_db
def test_an_exception_of_fn_is_raised_at_once_and_writes_nothing():
    counter = Counter.objects.create()
    calls = []

    def fail(copy: Counter) -> None:
        calls.append(1)
        copy.value = 9
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Counter.objects.mutate(counter.pk, fail)

    assert (calls, Counter.objects.get().value) == ([1], 0)


@pytest.mark.django_db
def test_other_keys_and_version_names_work():
    Shelf.objects.create(code="a1")
    Holding.objects.create(branch=1, number=2)

    Shelf.objects.mutate("a1", lambda copy: setattr(copy, "label", "poems"))
    Holding.objects.mutate((1, 2), lambda copy: setattr(copy, "copies", 3))

    assert (Shelf.objects.get().label, Holding.objects.get().copies) == ("poems", 3)


@pytest.mark.django_db
def test_derived_columns_are_written_without_a_new_version():
    member = Member.objects.create(name="Ann")

    Member.objects.mutate(member.pk, lambda copy: setattr(copy, "loans", 4))

    assert Member.objects.values_list("loans", "version").get() == (4, 1)


@pytest.mark.django_db(transaction=True)
def test_without_a_surrounding_block_each_attempt_is_a_transaction_of_its_own():
    counter = Counter.objects.create()
    depths = []

    def look(copy: Counter) -> None:
        depths.append((connection.in_atomic_block, len(connection.savepoint_ids)))
        copy.value += 1

    Counter.objects.mutate(counter.pk, look)
    Counter.objects.mutate(counter.pk, look, atomic=False)
    with transaction.atomic():
        Counter.objects.mutate(counter.pk, look)

    assert depths == [(True, 0), (False, 0), (True, 1)]
    assert Counter.objects.get().value == 3


@pytest.mark.django_db(transaction=True)
def test_the_lock_is_taken_after_two_conflicts_so_that_a_rival_cannot_starve_the_caller(second_session):
    counter = Counter.objects.create()
    attempts = []

    def add(copy: Counter) -> None:
        attempts.append(copy.value)
        if len(attempts) <= 2 and connection.vendor != "sqlite":
            second_session.run(lambda: move(copy))
        elif len(attempts) <= 2:
            move(copy)
        copy.value += 1

    saved = Counter.objects.mutate(counter.pk, add, backoff=AT_ONCE)

    expected = [0, 100, 200] if connection.vendor != "sqlite" else [0, 0, 0]
    assert attempts == expected
    assert saved.value == expected[-1] + 1


@pytest.mark.django_db(transaction=True)
def test_amutate_does_the_same_from_async_code():
    counter = Counter.objects.create()

    async def set_it() -> Counter:
        return await Counter.objects.amutate(counter.pk, lambda copy: setattr(copy, "value", 7))

    saved = async_to_sync(set_it)()

    assert (saved.value, Counter.objects.get().value) == (7, 7)

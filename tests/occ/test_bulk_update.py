"""bulk_update: every object guarded, all or nothing, values through each field's own preparation."""

import datetime as dt
import decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F, JSONField, Value

import occ
from occ.bulk import BulkUpdate
from occ.signals import write_observers
from tests.library.models import Author, Book, Counter, Documentary, Holding, Loan, Medium, Member, Shelf

pytestmark = pytest.mark.django_db


def counters(number: int) -> list[Counter]:
    return Counter.objects.bulk_create([Counter(value=n) for n in range(number)])


def fresh(number: int) -> list[Counter]:
    counters(number)
    return list(Counter.objects.order_by("pk"))


def test_all_rows_are_written_and_all_versions_move():
    objs = fresh(3)

    for obj in objs:
        obj.value += 10
    rows = Counter.objects.bulk_update(objs, ["value"])

    assert rows == 3
    assert [obj.version for obj in objs] == [2, 2, 2]
    assert list(Counter.objects.order_by("pk").values_list("value", "version")) == [(10, 2), (11, 2), (12, 2)]


def test_exactly_the_stale_rows_are_named_and_nothing_is_written():
    objs = fresh(30)
    changed, gone = [objs[3], objs[17]], objs[8]
    for obj in changed:
        Counter.objects.filter(pk=obj.pk).update(value=-1)
    Counter.objects.filter(pk=gone.pk).delete()

    for obj in objs:
        obj.value = 99
    with pytest.raises(occ.BulkConflict) as caught:
        Counter.objects.bulk_update(objs, ["value"])

    found = [(c.pk, c.expected, c.actual, c.reason) for c in caught.value.conflicts]
    assert found == [
        (objs[3].pk, 1, 2, "changed"),
        (gone.pk, 1, None, "deleted"),
        (objs[17].pk, 1, 2, "changed"),
    ]
    assert not Counter.objects.filter(value=99).exists()
    assert {obj.version for obj in objs} == {1}


@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_conflict_leaves_the_surrounding_transaction_usable_and_whole(batch_size):
    objs = fresh(30)
    Counter.objects.filter(pk=objs[29].pk).update(value=-1)

    with transaction.atomic():
        Counter.objects.filter(pk=objs[0].pk).update(value=5)
        objs[0].refresh_from_db()
        with pytest.raises(occ.BulkConflict) as caught:
            Counter.objects.bulk_update(objs, ["value"], batch_size=batch_size)
        assert Counter.objects.get(pk=objs[0].pk).value == 5

    assert [c.pk for c in caught.value.conflicts] == [objs[29].pk]
    assert Counter.objects.values_list("value", "version").get(pk=objs[0].pk) == (5, 2)
    assert Counter.objects.values_list("value", "version").get(pk=objs[1].pk) == (1, 1)


def test_skip_writes_the_others_and_returns_the_stale_ones():
    objs = fresh(5)
    Counter.objects.filter(pk=objs[2].pk).update(value=-1)

    for obj in objs:
        obj.value = 9
    stale = Counter.objects.bulk_update(objs, ["value"], on_conflict="skip")

    assert stale == [objs[2]]
    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == [9, 9, -1, 9, 9]
    assert [obj.version for obj in objs] == [2, 2, 1, 2, 2]
    assert Counter.objects.bulk_update(objs, ["value"], on_conflict="skip") == [objs[2]]


def test_skip_with_nothing_but_stale_ones_writes_nothing_and_tells_nobody():
    objs = fresh(3)
    Counter.objects.update(value=-1)
    told: list[int] = []
    write_observers.append(lambda model, rows: told.append(rows))

    try:
        stale = Counter.objects.bulk_update(objs, ["value"], on_conflict="skip")
    finally:
        write_observers.pop()

    assert (stale, told) == (objs, [])
    assert set(Counter.objects.values_list("value", "version")) == {(-1, 2)}


def test_skip_leaves_out_what_the_queryset_leaves_out():
    objs = fresh(2)
    Counter.objects.filter(pk=objs[1].pk).update(value=7)
    objs[1].refresh_from_db()

    for obj in objs:
        obj.value = 9
    skipped = Counter.objects.filter(value__gt=5).bulk_update(objs, ["value"], on_conflict="skip")

    assert skipped == [objs[0]]
    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == [0, 9]


def test_many_rows_take_several_statements_and_all_are_written():
    objs = fresh(2500)

    for obj in objs:
        obj.value += 1
    Counter.objects.bulk_update(objs, ["value"])

    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == list(range(1, 2501))


def test_no_statement_more_than_djangos(django_assert_num_queries):
    objs = fresh(20)

    with django_assert_num_queries(2 if connection.vendor == "mysql" else 1) as queries:
        Counter.objects.bulk_update(objs, ["value"])

    assert "version" in queries[-1]["sql"]


@pytest.mark.parametrize("chunk", [None, 1])
def test_values_go_through_each_fields_preparation(chunk):
    author = Author.objects.create(name="Jane")
    books = [Book.objects.create(title=f"Book {n}") for n in range(3)]
    moment = dt.datetime(2025, 3, 4, 5, 6, 7, 890000, tzinfo=dt.UTC)

    for n, book in enumerate(books):
        book.title = f'it\'s {n} \\ "quoted" % %s é'
        book.stock = -n
        book.price = decimal.Decimal("12.50") + n
        book.details = {"n": n, "list": [1, None, "x"], "text": "'%s"}
        book.author = author if n else None
        book.updated_at = moment
        book.notes = "" if n == 1 else "line\nline"
    fields = ["title", "stock", "price", "details", "author", "updated_at", "notes"]
    Book.objects.bulk_update(books, fields, batch_size=chunk)

    for n, book in enumerate(Book.objects.order_by("pk")):
        assert (book.title, book.stock, book.price) == (
            f'it\'s {n} \\ "quoted" % %s é',
            -n,
            decimal.Decimal(12 + n) + decimal.Decimal("0.5"),
        )
        assert (book.details, book.author_id) == (
            {"n": n, "list": [1, None, "x"], "text": "'%s"},
            author.pk if n else None,
        )
        assert (book.updated_at, book.notes, book.version) == (moment, "" if n == 1 else "line\nline", 2)


def test_a_value_too_long_is_refused_never_cut():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no lengths")
    book = Book.objects.create(title="Emma")

    book.title = "x" * 101
    with pytest.raises(Exception, match="(?i)too long"), transaction.atomic():
        Book.objects.bulk_update([book], ["title"])

    assert Book.objects.get().title == "Emma"


def test_expressions_are_written_row_by_row_and_guarded():
    objs = fresh(3)
    Counter.objects.filter(pk=objs[2].pk).update(value=50)

    for obj in objs:
        obj.value = F("value") + 1
    with pytest.raises(occ.BulkConflict) as caught:
        Counter.objects.bulk_update(objs, ["value"])
    assert [c.pk for c in caught.value.conflicts] == [objs[2].pk]
    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == [0, 1, 50]

    assert Counter.objects.bulk_update(objs, ["value"], on_conflict="skip") == [objs[2]]
    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == [1, 2, 50]


def test_expressions_without_a_type_of_their_own_take_the_fields():
    book = Book.objects.create(title="Emma")

    book.details = Value({"pages": 1}, output_field=JSONField())
    Book.objects.bulk_update([book], ["details"])
    book.details = Value(None)
    with pytest.raises(IntegrityError), transaction.atomic():  # from the database: the column is NOT NULL
        Book.objects.bulk_update([book], ["details"])

    assert Book.objects.values_list("details", "version").get() == ({"pages": 1}, 2)


def test_other_keys_and_version_names_are_guarded():
    shelves = [Shelf.objects.create(code=code) for code in "ab"]
    loans = [Loan.objects.create(), Loan.objects.create()]
    holdings = [Holding.objects.create(branch=1, number=n) for n in (1, 2)]
    for objs, fields, change in (
        (shelves, ["label"], {"label": "new"}),
        (loans, ["returned"], {"returned": True}),
        (holdings, ["copies"], {"copies": 4}),
    ):
        model = type(objs[0])
        stale = [model.objects.get(pk=obj.pk) for obj in objs]
        for obj in (*objs, *stale):
            vars(obj).update(change)

        assert model.objects.bulk_update(objs, fields) == 2
        with pytest.raises(occ.BulkConflict) as caught:
            model.objects.bulk_update(stale, fields)
        assert [c.pk for c in caught.value.conflicts] == [obj.pk for obj in stale]
        assert model.objects.filter(**change).count() == 2


def test_a_hierarchy_is_guarded_by_its_root():
    films = [Documentary.objects.create(title=f"{n}", subject="x") for n in range(3)]
    stale = Documentary.objects.get(title="1")

    for film in films:
        film.title, film.subject, film.minutes = "new", "sea", 9
    Documentary.objects.bulk_update(films, ["title", "subject", "minutes"])

    assert set(Documentary.objects.values_list("title", "subject", "minutes", "version")) == {("new", "sea", 9, 2)}
    stale.subject = "lost"
    with pytest.raises(occ.BulkConflict):
        Documentary.objects.bulk_update([stale], ["subject"])
    assert Medium.objects.get(pk=stale.pk).version == 2


def test_the_querysets_filters_apply():
    objs = fresh(3)

    for obj in objs:
        obj.value += 10
    with pytest.raises(occ.BulkConflict):
        Counter.objects.filter(value__gt=0).bulk_update(objs, ["value"])

    assert list(Counter.objects.order_by("pk").values_list("value", flat=True)) == [0, 1, 2]


def test_derived_columns_alone_are_not_guarded():
    member = Member.objects.create(name="Ann")
    editor = Member.objects.get()

    member.loans = 5
    Member.objects.bulk_update([member], ["loans"])
    editor.name = "Anna"
    editor.save()

    assert Member.objects.values_list("name", "loans", "version").get() == ("Anna", 5, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fields": []}, "Field names must be given"),
        ({"fields": ["id"]}, "primary key fields"),
        ({"fields": ["nothing"]}, "nothing"),
        ({"fields": ["value"], "batch_size": 0}, "Batch size"),
        ({"fields": ["value"], "on_conflict": "ignore"}, 'on_conflict must be "raise" or "skip"'),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(Exception, match=message):
        Counter.objects.bulk_update(fresh(1), **arguments)


def test_the_same_row_twice_and_a_row_without_a_key_are_refused():
    (obj,) = fresh(1)

    with pytest.raises(ValueError, match="same row twice"):
        Counter.objects.bulk_update([obj, Counter.objects.get()], ["value"])
    with pytest.raises(ValueError, match="primary key set"):
        Counter.objects.bulk_update([Counter()], ["value"])
    assert Counter.objects.bulk_update([], ["value"]) == 0


def test_an_expression_without_a_type_takes_that_of_its_column():
    book = Book.objects.create(title="x", author=Author.objects.create(name="Jane"))
    book.author_id = Value(None)

    Book.objects.bulk_update([book], ["author"])

    assert Book.objects.values_list("author_id", "version").get() == (None, 2)


def test_versions_in_memory_follow_a_rollback():
    objs = fresh(3)

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Counter.objects.bulk_update(objs, ["value"])
        raise ZeroDivisionError

    assert [obj.version for obj in objs] == [1, 1, 1]


@pytest.mark.parametrize("model", [Book, Counter, Shelf, Loan, Holding])
def test_the_fast_way_carries_the_ordinary_models(model):
    fields = [f for f in model._meta.concrete_fields if not f.primary_key and f is not model._occ_version_field]
    fields = [f for f in fields if f.name not in ("branch", "number")]

    assert BulkUpdate(model, "default", [], fields).is_fast()

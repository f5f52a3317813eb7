"""What the guard costs: no statement and no Python call more than plain Django's save."""

from contextlib import nullcontext

import pytest
from django.db import models, transaction

from tests.kit.costs import calls_of
from tests.library.models import Book, Counter, PlainBook, PlainCounter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("block", [nullcontext, transaction.atomic], ids=["autocommit", "atomic"])
@pytest.mark.parametrize(("guarded", "plain"), [(Book, PlainBook), (Counter, PlainCounter)])
def test_a_save_makes_no_more_calls_than_a_plain_one(block, guarded: type[models.Model], plain: type[models.Model]):
    ours, theirs = guarded.objects.create(), plain.objects.create()

    with block():
        assert calls_of(ours.save) <= calls_of(theirs.save)


@pytest.mark.parametrize("block", [nullcontext, transaction.atomic], ids=["autocommit", "atomic"])
def test_a_save_of_some_fields_makes_no_more_calls_than_a_plain_one_of_as_many_columns(block):
    ours, theirs = Book.objects.create(), PlainBook.objects.create()

    with block():
        assert calls_of(lambda: ours.save(update_fields=["stock"])) <= calls_of(
            lambda: theirs.save(update_fields=["stock", "counter"])
        )


@pytest.mark.parametrize("update_fields", [None, ["stock"]])
def test_a_save_is_the_same_single_statement_with_the_version_in_it(django_assert_num_queries, update_fields):
    book = Book.objects.create(title="Emma")

    with django_assert_num_queries(1) as queries:
        book.save(update_fields=update_fields)

    changed, _, where = queries[0]["sql"].partition("WHERE")
    assert "version" in changed and "version" in where

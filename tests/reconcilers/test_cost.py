"""How many statements it takes."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import reconcilers
from reconcilers import Reconciler
from reconcilers.controller import turn
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)

BOUNDARIES = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE SAVEPOINT")


def statements(queries: CaptureQueriesContext) -> list[str]:
    """Return the first word of each statement, transaction boundaries left out."""
    words = [query["sql"].split()[0] for query in queries.captured_queries]
    return [word for word in words if not word.startswith(BOUNDARIES)]


@pytest.fixture
def settler(register: Register) -> type[Reconciler]:
    @register
    class Settler(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            counter.value = 5

    return Settler


def claim_statements() -> list[str]:
    return ["UPDATE", "SELECT"] if connection.vendor == "mysql" else ["UPDATE"]


def test_a_save_costs_one_statement_more(settler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=5)

    with CaptureQueriesContext(connection) as queries:
        counter.save()

    assert statements(queries) == ["UPDATE", "INSERT"]


def test_a_run_that_changes_nothing_costs_claim_read_and_finish(settler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=5)

    with CaptureQueriesContext(connection) as queries:
        turn(settler, counter.pk)

    assert statements(queries) == [*claim_statements(), "SELECT", "UPDATE"]


def test_a_run_with_a_write_costs_one_statement_more(settler: type[Reconciler]) -> None:
    counter = Counter.objects.create(value=1)

    with CaptureQueriesContext(connection) as queries:
        turn(settler, counter.pk)

    assert statements(queries) == [*claim_statements(), "SELECT", "UPDATE", "UPDATE"]


def test_a_nudge_for_what_is_not_due_costs_the_attempt_to_claim(settler: type[Reconciler]) -> None:
    with CaptureQueriesContext(connection) as queries:
        turn(settler, 1)

    assert statements(queries) == ["UPDATE"]


def test_a_thousand_requests_in_one_transaction_are_few_statements(settler: type[Reconciler]) -> None:
    from django.db import transaction

    with transaction.atomic(), reconcilers.collect():
        counters = Counter.objects.bulk_create(Counter(value=5) for _ in range(1000))
    for counter in counters:
        counter.value = 6

    with CaptureQueriesContext(connection) as queries, transaction.atomic(), reconcilers.collect():
        Counter.objects.filter(pk__in=[counter.pk for counter in counters[:900]]).update(value=7)

    assert statements(queries).count("INSERT") == 5

"""What people can put into keys and values does not get where it could do harm: see SECURITY.md."""

import logging
from typing import Any

import pytest

import occ
from occ.logs import one_line
from reconcilers import Reconciler, enqueue
from reconcilers.controller import turn
from reconcilers.exceptions import LeaseLost
from reconcilers.models import WorkItem
from reconcilers.testing import registered
from tests.library.models import Book, Shelf

pytestmark = pytest.mark.django_db

FORGED = "a\n2031-01-01 00:00:00 occ INFO all is well\r\x1b[2K\u2028"


class Broken(Reconciler):
    model = Shelf

    def reconcile(self, shelf: Shelf) -> None:
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("cart", "cart"),
        ("naïve 購物", "naïve 購物"),
        (42, "42"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31mred\u2028\u202e\ud800", "\\x1b[31mred\\u2028\\u202e\\ud800"),
    ],
)
def test_what_does_not_print_is_escaped(value: Any, line: str) -> None:
    assert one_line(value) == line


def test_a_key_cannot_write_a_line_into_the_log_of_a_conflict(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf.objects.create(code=FORGED)
    Shelf.objects.update(label="theirs")

    with caplog.at_level(logging.INFO, "occ"), pytest.raises(occ.Conflict) as refused:
        shelf.save()

    assert len(caplog.messages) == 1
    assert [text.splitlines() for text in (*caplog.messages, str(refused.value))] == [
        [caplog.messages[0]],
        [str(refused.value)],
    ]


def test_a_key_cannot_write_a_line_into_the_log_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf.objects.create(code=FORGED)

    with registered(Broken), caplog.at_level(logging.INFO, "reconcilers"):
        enqueue(Broken, shelf.pk)
        outcome = turn(Broken, shelf.pk)

    assert outcome == "failed"
    assert [message.splitlines() for message in caplog.messages] == [[message] for message in caplog.messages]
    assert len(caplog.messages) == 1
    assert str(LeaseLost("Broken", FORGED)).splitlines() == [str(LeaseLost("Broken", FORGED))]


def test_a_conflict_tells_no_values_of_the_row(caplog: pytest.LogCaptureFixture) -> None:
    book = Book.objects.create(title="public", notes="secret-before")
    Book.objects.update(notes="secret-theirs")
    book.notes = "secret-mine"

    with caplog.at_level(logging.DEBUG, "occ"), pytest.raises(occ.Conflict) as refused:
        book.save()

    assert "secret" not in f"{refused.value} {refused.value!r} {caplog.text}"


def test_a_work_item_keeps_the_error_and_no_traceback() -> None:
    shelf = Shelf.objects.create(code="a")

    with registered(Broken):
        enqueue(Broken, shelf.pk)
        turn(Broken, shelf.pk)

    assert WorkItem.objects.get(reconciler="Broken").last_error == "RuntimeError: broken"

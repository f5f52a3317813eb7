"""Every way to write a row against every other, step by step: refused or repeated, and nothing lost.

Both sessions read, then one writes and commits, then the other writes what it has. What the second one finds is fixed
by the steps, not by luck, so each cell of the table is one outcome and one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, transaction

from occ.retry import is_retryable
from occ.testing import Session
from tests.races.levels import LEVELS, SNAPSHOTS, session_number, set_level, wait_until_blocked
from tests.races.paths import BOOK, FILM, Path, Row, Table

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("level", LEVELS),
    pytest.mark.parametrize("table", [BOOK, FILM], ids=["one table", "two tables"]),
]

Sessions = tuple[Session, Session]
TIMEOUT = 60.0


@pytest.fixture
def sessions(transactional_db: None, level: str) -> Iterator[Sessions]:
    with Session() as first, Session() as second:
        for session in (first, second):
            session.run(lambda: set_level(level))
        yield first, second


def outcome_of(write: Callable[[], object]) -> str:
    try:
        write()
    except ObjectDoesNotExist:
        return "gone"
    except DatabaseError as error:
        if not is_retryable(error):
            raise
        return "refused"
    return "done"


def allowed(path: Path, *, before: Row | None, now: Row | None, loose: bool) -> set[str]:
    """Return what may become of a write that read the row as ``before`` and meets it as ``now``.

    ``loose`` is for who reads from a snapshot: the database may refuse what would have been right.
    """
    if path.carries_version:
        return {"done"} if now == before else {"refused"}
    certain = {"gone"} if path.retries and now is None else {"done"}
    return certain | {"refused"} if loose else certain


def problem(table: Table, pk: Any, path: Path, outcome: str, now: Row | None, may: set[str]) -> str | None:
    """Return what is wrong with an outcome, and with the row that it left, or None."""
    expected, found = path.effect(now) if outcome == "done" else now, table.look(pk)
    return None if outcome in may and found == expected else f"{outcome} (may: {may}), left {found} for {expected}"


def problems(table: Table, meet: Callable[[Path, Path], str | None], *, firsts: set[str] | None = None) -> dict:
    """Let every path meet every other and return what was wrong, by the names of the two."""
    met = {
        (first, second): meet(table.paths[first], table.paths[second])
        for first in firsts or table.paths
        for second in table.paths
    }
    return {names: wrong for names, wrong in met.items() if wrong}


def test_the_second_of_two_who_read_the_same_row_is_refused_or_reads_again(
    sessions: Sessions, table: Table, level: str
) -> None:
    def meet(first: Path, second: Path) -> str | None:
        pk = table.create()
        before = table.look(pk)
        ours = sessions[0].run(lambda: first.read(pk))
        theirs = sessions[1].run(lambda: second.read(pk))

        sessions[0].run(lambda: first.write(ours), timeout=TIMEOUT)
        outcome = sessions[1].run(lambda: outcome_of(lambda: second.write(theirs)), timeout=TIMEOUT)

        now = first.effect(before)
        return problem(table, pk, second, outcome, now, allowed(second, before=before, now=now, loose=False))

    assert problems(table, meet) == {}


def test_a_transaction_that_read_before_the_other_wrote_loses_nothing(
    sessions: Sessions, table: Table, level: str
) -> None:
    """Read and write are one transaction, at the level; on a snapshot the database may refuse by itself."""
    if level == "IMMEDIATE":
        pytest.skip("SQLite lets nobody write while such a transaction is open")

    def meet(first: Path, second: Path) -> str | None:
        pk = table.create()
        before = table.look(pk)
        ours = sessions[0].run(lambda: first.read(pk))

        def read_wait_write() -> None:
            with transaction.atomic():
                theirs = second.read(pk)
                table.look(pk)  # takes the snapshot, for paths that carry nothing
                sessions[0].run(lambda: first.write(ours), timeout=TIMEOUT)
                second.write(theirs)

        outcome = sessions[1].run(lambda: outcome_of(read_wait_write), timeout=2 * TIMEOUT)

        now, loose = first.effect(before), level in SNAPSHOTS
        return problem(table, pk, second, outcome, now, allowed(second, before=before, now=now, loose=loose))

    assert problems(table, meet) == {}


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_who_waited_for_an_open_transaction_sees_how_it_ended(
    sessions: Sessions, table: Table, level: str, ending: str
) -> None:
    number = sessions[1].run(session_number)

    def meet(first: Path, second: Path) -> str | None:
        pk = table.create()
        before = table.look(pk)
        ours = sessions[0].run(lambda: first.read(pk))
        theirs = sessions[1].run(lambda: second.read(pk))
        block = transaction.atomic()

        def end() -> None:
            transaction.set_rollback(ending == "rollback")
            block.__exit__(None, None, None)

        sessions[0].run(block.__enter__)
        sessions[0].run(lambda: first.write(ours), timeout=TIMEOUT)
        writing = sessions[1].start(lambda: outcome_of(lambda: second.write(theirs)))
        wait_until_blocked(number, writing.done)
        sessions[0].run(end)
        outcome = writing.result(TIMEOUT)

        now = first.effect(before) if ending == "commit" else before
        loose = level in SNAPSHOTS and not second.retries
        return problem(table, pk, second, outcome, now, allowed(second, before=before, now=now, loose=loose))

    # What is taken back has no effect, whoever wrote it: a few will do.
    firsts = {"save", "delete", "update"} if ending == "rollback" else None
    assert problems(table, meet, firsts=firsts) == {}

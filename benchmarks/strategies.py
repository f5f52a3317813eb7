"""Ways for many writers to add one to the same row, for ``benchmarks.hot_key``. Needs Django to be set up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from django.db import models, transaction

import occ
import reconcilers
from benchmarks.workload.models import WIDTH, Account, Board, Order
from benchmarks.workload.reconcilers import Teller
from occ.retry import LOCK_AFTER
from tests.library.models import Counter, PlainCounter

# What a writer does between its read and its write, in seconds.
THINK = 0.001


@dataclass(kw_only=True)
class Turn:
    """One write of a writer: when it was due (``time.monotonic()``), and how often it has read the row for it."""

    writer: int
    due: float
    reads: int = field(default=0)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How to write; ``total`` tells what has been written, so that what was lost shows."""

    name: str
    model: type[models.Model]
    write: Callable[[int, Turn], None]
    total: Callable[[int], int]
    queued: bool = False


def _add_one(turn: Turn, counter: Counter | PlainCounter) -> None:
    turn.reads += 1
    time.sleep(THINK)
    counter.value += 1


def naive(pk: int, turn: Turn) -> None:
    """Read, change, save, with nobody watching."""
    counter = PlainCounter.objects.get(pk=pk)
    _add_one(turn, counter)
    counter.save()


def locked(pk: int, turn: Turn) -> None:
    """Hold the row's lock from the read to the write."""
    with transaction.atomic():
        counter = PlainCounter.objects.select_for_update().get(pk=pk)
        _add_one(turn, counter)
        counter.save()


def optimistic(pk: int, turn: Turn, *, backoff: occ.Backoff | None = None, lock_after: int | None = None) -> None:
    """Have stale writes refused, and try again."""
    Counter.objects.mutate(pk, partial(_add_one, turn), backoff=backoff, lock_after=lock_after)


def owned(pk: int, turn: Turn) -> None:
    """Apply a column of one's own."""
    name = f"f{turn.writer % WIDTH}"
    turn.reads += 1
    value = getattr(Board.objects.only(name, "version").get(pk=pk), name)
    time.sleep(THINK)
    Board.objects.apply(pk, {name: value + 1}, manager=f"writer {turn.writer}")


def queued(pk: int, turn: Turn) -> None:
    """Leave an order to the row's only writer."""
    turn.reads += 1
    time.sleep(THINK)
    with transaction.atomic():
        Order.objects.create(account_id=pk, writer=turn.writer, due=turn.due)
        reconcilers.enqueue(Teller, pk)


def _value(model: type[Account] | type[Counter] | type[PlainCounter], pk: int) -> int:
    return model.objects.get(pk=pk).value


def _board(pk: int) -> int:
    board = Board.objects.get(pk=pk)
    return sum(getattr(board, f"f{number}") for number in range(WIDTH))


_PERSISTENT = occ.Backoff(attempts=None)
_AT_ONCE = occ.Backoff(base=0, cap=0, attempts=None)
_counter, _plain = partial(_value, Counter), partial(_value, PlainCounter)

NAIVE = Strategy(name="unguarded", model=PlainCounter, write=naive, total=_plain)
LOCKED = Strategy(name="select_for_update", model=PlainCounter, write=locked, total=_plain)
STORM = Strategy(name="retry at once", model=Counter, write=partial(optimistic, backoff=_AT_ONCE), total=_counter)
JITTER = Strategy(
    name="retry with jitter", model=Counter, write=partial(optimistic, backoff=_PERSISTENT), total=_counter
)
MUTATE = Strategy(
    name="mutate (as shipped)", model=Counter, write=partial(optimistic, lock_after=LOCK_AFTER), total=_counter
)
OWNED = Strategy(name="field ownership", model=Board, write=owned, total=_board)
QUEUED = Strategy(name="work queue", model=Account, write=queued, total=partial(_value, Account), queued=True)

ALL = (LOCKED, MUTATE, JITTER, STORM, OWNED, QUEUED, NAIVE)
HEAVY = tuple(one for one in ALL if one is not STORM)  # at 60 % load that works for a minute at what came in 8 s
CURVE = (LOCKED, MUTATE, JITTER)

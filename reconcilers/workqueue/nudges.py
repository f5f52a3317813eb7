"""Waking a worker when a transaction commits: one message for many keys, and never at the caller's expense.

A nudge is a courtesy. The item is in the table; a nudge that is lost, late or doubled changes nothing but the delay.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections, transaction

from reconcilers.conf import reconciler_settings

logger = logging.getLogger("reconcilers")

Key = tuple[str, str]  # the reconciler's name, the key
Sender = Callable[[list[Key] | None, str], None]  # the keys (None: a sweep is wanted), the database alias
Counter = Callable[[str | None], int]  # of the messages that wait in a Celery queue (None: the default one)

# Above this many keys one message asks for a sweep instead, which keeps to the window.
KEYS_PER_NUDGE = 50
# How long the nudge of a commit gets to be acted upon before a sweep sends another.
GRACE_SECONDS = 2.0


class Allowance:
    """How many keys the commits of this process may nudge: a bucket that fills steadily up to a second's worth.

    An import of a hundred thousand rows, each in a transaction of its own, must not fill the broker with as many
    messages. What is over the allowance is left to the sweeps, which keep to a window.
    """

    def __init__(self, *, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._left = per_second
        self._filled_at = clock()

    def take(self, keys: int) -> bool:
        """Return whether that many keys may be nudged now, and count them if so."""
        now = self._clock()
        self._left = min(self.per_second, self._left + (now - self._filled_at) * self.per_second)
        self._filled_at = now
        if self._left < keys:
            return False
        self._left -= keys
        return True


# While a window of messages waits in a broker's queue, one that nobody acted upon is not lost, but waits among them. It
# is repeated rarely, since it may be lost all the same, behind messages of others.
CROWDED_AGAIN_SECONDS = 600.0

_sender: Sender | None = None
_counter: Counter | None = None
_allowance = Allowance(per_second=200)
_open = threading.local()


def set_sender(sender: Sender | None, counter: Counter | None = None) -> None:
    """Set what carries nudges to the workers (None: nothing does), and what counts those that still wait there."""
    global _sender, _counter
    _sender, _counter = sender, counter


class _Batch:
    """The keys that one transaction asked for."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.keys: dict[Key, None] = {}
        # The hooks this batch is among: the connection makes another list when the transaction ends and when it
        # rolls back to a savepoint, which may have dropped this batch.
        self.hooks: list[Any] | None = None

    def __call__(self) -> None:
        _send_for_commit(list(self.keys), self.using)


def enabled() -> bool:
    """Whether a commit wakes workers in this process."""
    return _sender is not None and reconciler_settings.NUDGE


def on_commit(keys: Iterable[Key], using: str) -> None:
    """Send a nudge for ``keys`` once the transaction commits, together with all others of the transaction."""
    if not enabled():
        return
    connection = connections[using]
    if not connection.in_atomic_block:
        _send_for_commit(list(dict.fromkeys(keys)), using)
        return
    batches: dict[str, _Batch] = _open.__dict__.setdefault("batches", {})
    batch = batches.get(using)
    if batch is None or batch.hooks is not connection.run_on_commit:
        batch = batches[using] = _Batch(using)
        transaction.on_commit(batch, using=using, robust=True)
        batch.hooks = connection.run_on_commit
    batch.keys.update(dict.fromkeys(keys))


def _send_for_commit(keys: list[Key], using: str) -> None:
    many = len(keys) > KEYS_PER_NUDGE
    if _allowance.take(1 if many else len(keys)):
        send(None if many else keys, using)


def send(keys: list[Key] | None, using: str) -> None:
    """Send nudges now, for keys or (None) for a sweep; what goes wrong is logged and goes no further."""
    if _sender is None or keys == []:
        return
    try:
        _sender(keys, using)
    except Exception:
        logger.exception("A nudge was not sent; the next sweep makes up for it.")


def crowded(queue: str | None) -> bool:
    """Tell whether a window of messages waits in a Celery queue; False where that cannot be told."""
    if _counter is None:
        return False
    try:
        return _counter(queue) >= reconciler_settings.NUDGE_WINDOW
    except Exception:
        logger.exception("The messages of a queue were not counted.")
        return False

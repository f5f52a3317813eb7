"""What ``reconcile`` may return."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Result:
    """The run succeeded; says when the key shall run again.

    Attributes:
        requeue_after: a timedelta or seconds after which the key runs again, changed or not. None: at the next change
            or resync. A change that comes earlier runs it earlier.
    """

    requeue_after: dt.timedelta | float | None = None

    def __post_init__(self) -> None:
        if self.requeue_after is not None:
            to_seconds("requeue_after", self.requeue_after)

    @property
    def requeue_seconds(self) -> float | None:
        """``requeue_after`` in seconds."""
        return None if self.requeue_after is None else to_seconds("requeue_after", self.requeue_after)


def to_seconds(name: str, duration: dt.timedelta | float) -> float:
    """Return ``duration`` in seconds; ``ValueError`` naming the argument unless it is one that a row can hold."""
    seconds: object = duration.total_seconds() if isinstance(duration, dt.timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _TEN_YEARS:
        raise ValueError(f"{name} must be a timedelta or a number of seconds, from 0 to ten years, not {duration!r}.")
    return float(seconds)


_TEN_YEARS = 10 * 366 * 24 * 3600

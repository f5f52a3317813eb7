"""Level-triggered controllers for Django models, on Celery or without it.

A ``Reconciler`` brings one row to the state it should be in. Every committed change of the row runs it, whatever
crashes in between: the request to run is a row of the same transaction, and a message only wakes a worker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reconcilers.conf import celery_beat_schedule
from reconcilers.exceptions import TerminalError
from reconcilers.reconciler import Reconciler
from reconcilers.registry import register
from reconcilers.result import Result

if TYPE_CHECKING:
    from reconcilers.workqueue import collect, enqueue, resync, status

__all__ = [
    "Reconciler",
    "Result",
    "TerminalError",
    "celery_beat_schedule",
    "collect",
    "enqueue",
    "register",
    "resync",
    "status",
]

# These need the app registry, which is not ready yet when an app's modules import this package.
_LAZY = frozenset({"collect", "enqueue", "resync", "status"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("reconcilers.workqueue"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

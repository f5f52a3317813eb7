"""Lets a demo hear what happens inside the Celery worker that it started. Nothing in any other process.

Connected by the app's ``ready()``; a demo asks for it with the environment variable OCC_DEMO_EVENTS.
"""

import os
import threading
from pathlib import Path
from typing import Any

from project.deployments.demo.events import GUARDED, Event, EventLog, What

EVENTS = "OCC_DEMO_EVENTS"


def connect_if_asked() -> None:
    """Connect the receivers when a demo wants to know."""
    folder = os.environ.get(EVENTS)
    if folder:
        _Ear(EventLog(Path(folder), f"worker-{os.getpid()}")).connect()


class _Ear:
    """The receivers; runs are told apart by thread, each has one at a time."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._run = threading.local()

    def connect(self) -> None:
        from celery.signals import worker_ready

        from occ.signals import conflict_detected
        from reconcilers.signals import reconcile_finished

        worker_ready.connect(self._ready, weak=False)
        conflict_detected.connect(self._conflict, weak=False)
        reconcile_finished.connect(self._finished, weak=False)

    def _ready(self, **kwargs: Any) -> None:
        self._log.append(Event(what=What.READY, writer=str(os.getpid())))

    def _conflict(self, **kwargs: Any) -> None:
        from reconcilers.reconciler import current_run

        run = current_run.get()
        if run is None:
            return
        self._run.conflicts = getattr(self._run, "conflicts", 0) + 1
        name = run.reconciler.name
        self._log.append(Event(what=What.CONFLICT, kind=name, writer=name, fleet=GUARDED, pk=int(run.key)))

    def _finished(self, *, reconciler: str, key: str, outcome: str, duration: float, **kwargs: Any) -> None:
        conflicts, self._run.conflicts = getattr(self._run, "conflicts", 0), 0
        requeued = outcome in ("conflict", "failed")
        self._log.append(
            Event(
                what=What.RECONCILED,
                kind=reconciler,
                writer=reconciler,
                fleet=GUARDED,
                pk=int(key),
                seconds=duration,
                retries=max(0, conflicts - requeued),
                requeued=requeued,
                detail=outcome,
            )
        )

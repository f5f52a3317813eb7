"""Acts one and two: the writers are let loose on a fleet, watched, counted, and their journal is audited."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import Count

from project.deployments.demo import fleet, ledger
from project.deployments.demo.events import Event, What
from project.deployments.demo.outcome import Act
from project.deployments.demo.preflight import DemoError
from project.deployments.demo.processes import Process
from project.deployments.demo.progress import ActDisplay
from project.deployments.demo.stage import LOOK_SECONDS, Stage
from project.deployments.demo.tally import Tally
from project.deployments.models import JournalEntry, Workload

JOURNAL_SECONDS = 0.5  # between two looks into it during an act
OVERTIME_SECONDS = 60.0  # for changes that were begun before the act's end


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One act.

    Attributes:
        fleet: which fleet is written to.
        model: its model.
        seconds: for how long.
        writers: the processes that write.
        halfway: called once in the middle; returns what to tell the audience.
    """

    fleet: JournalEntry.Fleet
    model: type[Workload]
    seconds: float
    writers: Sequence[Process]
    halfway: Callable[[], str] | None = None


class Performance:
    """Performs a plan. ``play`` is the race; ``close`` audits, when nobody writes any more."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        self._stage = stage
        self._plan = plan
        self.tally = Tally()
        self._accepted: list[Event] = []
        self._done = 0
        self._look_again = 0.0

    def play(self, display: ActDisplay) -> None:
        """Let the writers write, and return when the last of them is done."""
        plan = self._plan
        deployments = dict(plan.model._default_manager.values_list("name", "pk"))
        order = json.dumps({"fleet": plan.fleet, "deployments": deployments, "seconds": plan.seconds})
        for writer in plan.writers:
            writer.tell(order)
        began = time.monotonic()
        halfway = plan.halfway
        while self._done < len(plan.writers):
            self.hear()
            display.update(self.tally)
            elapsed = time.monotonic() - began
            if halfway is not None and elapsed >= plan.seconds / 2:
                display.say(halfway())
                halfway = None
            if elapsed > plan.seconds + OVERTIME_SECONDS:
                raise DemoError(
                    f"Some writers were not done {OVERTIME_SECONDS:.0f} s after the act. Look into the logs."
                )
            time.sleep(LOOK_SECONDS)

    def hear(self) -> None:
        """Count what was told since the last call."""
        for event in self._stage.events():
            if event.fleet != self._plan.fleet:
                continue
            if event.what is What.DONE:
                self._done += 1
                continue
            if event.what is What.ACCEPTED:
                self._accepted.append(event)
            self.tally.add(event)
        self._count_reconcilers()

    def _count_reconcilers(self) -> None:
        """Look into the journal: reconcilers make their entries there themselves, the others have none in it yet."""
        now = time.monotonic()
        if self._plan.fleet is JournalEntry.Fleet.GUARDED and now >= self._look_again:
            self._look_again = now + JOURNAL_SECONDS
            entries = JournalEntry.objects.filter(fleet=self._plan.fleet).order_by()
            for kind, writes in entries.values_list("writer").annotate(Count("pk")):
                self.tally.counts[kind].writes = writes

    def close(self) -> Act:
        """Enter what was accepted into the journal and compare it with the rows."""
        self._look_again = 0.0
        self.hear()
        fleet.record(self._accepted)
        return Act(
            counts=dict(self.tally.counts),
            audit=ledger.audit_fleet(self._plan.model, self._plan.fleet),
            failures=tuple(self.tally.failures),
        )

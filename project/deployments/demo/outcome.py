"""What a demo measured, from beginning to end; printed by ``report``, and decides the exit status."""

from collections.abc import Mapping
from dataclasses import dataclass

from project.deployments.demo.ledger import Audit
from project.deployments.demo.story import Story
from project.deployments.demo.tally import Count
from project.deployments.demo.ways import Way


@dataclass(frozen=True, kw_only=True)
class Act:
    """What one act came to.

    Attributes:
        counts: by kind of writer.
        audit: journal against rows.
        failures: what went wrong in writers, other than conflicts.
    """

    counts: Mapping[str, Count]
    audit: Audit
    failures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the whole demo came to.

    Attributes:
        unguarded: act one.
        guarded: act two.
        story: act three.
        unsettled: deployments that the reconcilers had not brought to their newest version in time.
        settled_after: seconds from the last client's write until all were.
        worker_killed: whether the Celery worker was killed in act two.
        database: the kind of database.
        broker: the kind of broker.
        ways: act four, one entry for each way to write one row.
    """

    unguarded: Act
    guarded: Act
    story: Story
    unsettled: tuple[str, ...]
    settled_after: float
    worker_killed: bool
    database: str
    broker: str
    ways: tuple[Way, ...] = ()

    def problems(self) -> list[str]:
        """Return why this demo failed, a sentence each; nothing when it did not."""
        audit = self.guarded.audit
        found = []
        if audit.lost:
            found.append(f"{audit.lost} accepted updates of the guarded fleet are lost.")
        if audit.same_version:
            found.append(f"{audit.same_version} accepted writes share their version with another.")
        if audit.unrecorded:
            found.append(f"{audit.unrecorded} changes in guarded rows are in nobody's journal.")
        if self.unsettled:
            found.append(f"Not reconciled to their newest version: {', '.join(self.unsettled)}.")
        if not self.story.nothing_lost:
            found.append("Act three did not end with both controllers' changes in the row.")
        if not self.unguarded.audit.lost:
            found.append("Act one lost nothing, so the race was not real: use more --writers or a longer --duration.")
        for way in self.ways:
            if way.lost and way.name != "unguarded":
                found.append(f"Act four: {way.lost} accepted updates of the {way.name} row are lost.")
            if way.conflicts and way.name in ("owned", "queued"):
                found.append(f"Act four: {way.conflicts} writes of the {way.name} row were refused.")
        failures = [*self.unguarded.failures, *self.guarded.failures]
        if failures:
            found.append(f"{len(failures)} writes failed for other reasons than a conflict, the first: {failures[0]}")
        return found

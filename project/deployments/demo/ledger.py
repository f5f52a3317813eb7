"""The ledger: do the rows still hold every change that was accepted?

Each accepted change raised one counter of its row by one (a key of ``annotations``, the number in ``notes``,
``revision``, ``scalings``), computed from the value that its writer had read. A later write from an older read takes
that away again and no counter catches up, so ``accepted - present`` is exactly what was lost. Guarded rows are held to
more: each accepted change is one version, so a row's version must be one more than the number of changes accepted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from project.deployments.demo.writers.changes import checked_times
from project.deployments.models import Deployment, JournalEntry, Workload


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one deployment says in the end.

    Attributes:
        pk: its key.
        version: its version; None for an unguarded one.
        counters: the value of each counter in it.
    """

    pk: int
    version: int | None
    counters: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One accepted change, as the journal has it; ``counter`` is empty where the change raised none."""

    pk: int
    writer: str
    counter: str
    version: int | None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What comparing journal and rows showed.

    Attributes:
        accepted: changes in the journal.
        lost: accepted changes that are no longer in their row.
        lost_by_writer: the same by writer; writers that lost nothing are left out.
        unrecorded: changes in rows that no journal entry tells of.
        same_version: accepted changes of a row beyond its number of versions: two writers were given the same one.
    """

    accepted: int
    lost: int
    lost_by_writer: Mapping[str, int]
    unrecorded: int
    same_version: int

    @property
    def clean(self) -> bool:
        """Whether journal and rows agree in everything."""
        return not (self.lost or self.unrecorded or self.same_version)


def audit(rows: Iterable[Row], entries: Iterable[Entry]) -> Audit:
    """Compare the rows with the journal of everything accepted since they were at version 1 with counters at 0."""
    entries = list(entries)
    raised = Counter((entry.pk, entry.counter) for entry in entries if entry.counter)
    changes = Counter(entry.pk for entry in entries)
    writers = {(entry.pk, entry.counter): entry.writer for entry in entries}
    lost: Counter[str] = Counter()
    unrecorded = same_version = 0
    for row in rows:
        for counter in {*row.counters, *(counter for pk, counter in raised if pk == row.pk)}:
            missing = raised[row.pk, counter] - row.counters.get(counter, 0)
            if missing > 0:
                lost[writers[row.pk, counter]] += missing
            else:
                unrecorded -= missing
        if row.version is not None:
            surplus = changes[row.pk] - (row.version - 1)
            same_version += max(0, surplus)
            unrecorded += max(0, -surplus)
    return Audit(
        accepted=len(entries),
        lost=lost.total(),
        lost_by_writer=dict(lost),
        unrecorded=unrecorded,
        same_version=same_version,
    )


def counters(workload: Workload) -> dict[str, int]:
    """Return every counter of a deployment that writers raise."""
    return {
        **{str(key): value for key, value in workload.annotations.items() if isinstance(value, int)},
        "notes": checked_times(workload.notes),
        "revision": workload.revision,
        "scalings": workload.scalings,
    }


def audit_fleet(model: type[Workload], fleet: JournalEntry.Fleet) -> Audit:
    """Audit the rows of ``model`` in the database against the journal of ``fleet``."""
    rows = [
        Row(
            pk=workload.pk,
            version=workload.version if isinstance(workload, Deployment) else None,
            counters=counters(workload),
        )
        for workload in model._default_manager.all()
    ]
    entries = JournalEntry.objects.filter(fleet=fleet).values_list("deployment_pk", "writer", "counter", "version")
    return audit(rows, (Entry(pk=pk, writer=w, counter=c, version=v) for pk, w, c, v in entries))

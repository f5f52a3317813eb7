"""For tests of reconcilers: no broker, no worker, no sleep.

::

    def test_rollout_waits_for_the_old_pods(db):
        with InlineRunner(Rollout) as runner:
            deployment = Deployment.objects.create(...)
            runner.run()
            runner.advance(minutes=5)
            assert runner.run() == [("Rollout", str(deployment.pk), "done")]
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, models, router, transaction
from django.test import override_settings

from occ.snapshots import Snapshot, save_changes
from reconcilers import controller, registry
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import steps, sweeper
from reconcilers.workqueue.sql import clock_offset

Ran = tuple[str, str, str]  # the reconciler's name, the key, the outcome


@contextmanager
def registered(*classes: type[Reconciler]) -> Iterator[None]:
    """Register reconcilers for the length of a block; those that were registered before stay so."""
    mine = [cls for cls in classes if cls not in map(type, registry.all_reconcilers())]
    for cls in mine:
        registry.register(cls)
    try:
        yield
    finally:
        for cls in mine:
            registry.unregister(cls)


class InlineRunner:
    """Runs what is due, here and now, on a clock that only the test moves.

    In the block the reconcilers given are registered, no message is sent, and leases, backoffs, delays and resyncs
    pass as ``advance`` says. It works inside a ``TestCase`` as well as with real transactions.

    Args:
        classes: the reconcilers; those registered already are run too.
        using: the alias of the database.
        limit: how many turns one ``run`` may take before it is an ``AssertionError``: reconcilers that ask for
            themselves or for each other for ever do not come to rest.
    """

    def __init__(self, *classes: type[Reconciler], using: str = DEFAULT_DB_ALIAS, limit: int = 1000) -> None:
        self._classes = classes
        self._using = using
        self._limit = limit
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(registered(*self._classes))
        configured = {**getattr(settings, "RECONCILERS", {}), "NUDGE": False}
        self._stack.enter_context(override_settings(RECONCILERS=configured))
        self._stack.callback(clock_offset.reset, clock_offset.set(clock_offset.get()))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def advance(self, duration: dt.timedelta | None = None, **parts: float) -> None:
        """Let time pass: a timedelta, or its parts as keyword arguments (``seconds=30``)."""
        passed = (duration or dt.timedelta()) + dt.timedelta(**parts)
        clock_offset.set(clock_offset.get() + passed.total_seconds())

    def run(self) -> list[Ran]:
        """Sweep, run everything that is due until nothing is, and return the turns in their order."""
        sweeper.sweep(using=self._using, clock=_standing)
        ran: list[Ran] = []
        while waiting := steps.waiting(registry.all_reconcilers(), using=self._using):
            for each in waiting:
                for claim in steps.claim_many(each, using=self._using, limit=100):
                    outcome = controller.run(each.reconciler, claim, sleep=lambda seconds: None)
                    ran.append((claim.reconciler, claim.key, outcome.value))
            if len(ran) > self._limit:
                raise AssertionError(f"Still not at rest after {len(ran)} turns; the last were {ran[-5:]}.")
        return ran


def _standing() -> float:
    """Tell the same time always: a scan that a test waits for has no time limit."""
    return 0.0


def assert_idempotent(reconciler: type[Reconciler], obj: models.Model, *, using: str | None = None) -> None:
    """Assert that a second run on the row of ``obj`` changes nothing that the first has not.

    Both runs are real, with whatever they do outside the database; what they write is rolled back.
    """
    known = reconciler()
    known.name = reconciler.name or reconciler.__name__
    alias = using or router.db_for_write(type(obj), instance=obj)
    with transaction.atomic(using=alias):
        _run_once(known, obj.pk, alias)
        changed = _run_once(known, obj.pk, alias)
        transaction.set_rollback(True, using=alias)
    if changed:
        raise AssertionError(
            f"{known.name} is not idempotent: a second run on {obj._meta.label} {obj.pk} changed {changed}. Compute "
            "these from the state of the row alone."
        )


def _run_once(reconciler: Reconciler, pk: Any, using: str) -> dict[str, tuple[Any, Any]]:
    obj = reconciler.model._base_manager.using(using).get(pk=pk)
    before = _values(obj)
    snapshot = Snapshot.take(obj, using)
    reconciler.reconcile(obj)
    changed = {name: (before[name], _values(obj)[name]) for name in snapshot.changed(obj)}
    save_changes(obj, snapshot)
    return changed


def _values(obj: models.Model) -> dict[str, Any]:
    return {field.name: getattr(obj, field.attname) for field in obj._meta.concrete_fields}


@contextmanager
def conflicts(reconciler: type[Reconciler], *, times: int = 1) -> Iterator[None]:
    """Let a rival write the row during each of the next ``times`` runs of a registered reconciler.

    The write of such a run is refused, and the run repeated on a fresh copy, as in a real race.
    """
    known = registry.get(reconciler)
    genuine = known.reconcile
    left = times

    def interrupted(obj: Any, /) -> Any:
        nonlocal left
        result = genuine(obj)
        if left > 0:
            left -= 1
            # An update without a change, which moves the version.
            using = obj._state.db
            type(obj)._base_manager.using(using).filter(pk=obj.pk).update(**_one_column(obj))
        return result

    known.reconcile = interrupted  # type: ignore[method-assign]
    try:
        yield
    finally:
        del known.reconcile


def _one_column(obj: models.Model) -> dict[str, Any]:
    version = getattr(obj, "_occ_version_field", None)
    for field in obj._meta.concrete_fields:
        if not field.primary_key and field is not version and not field.generated:
            return {field.name: models.F(field.name)}
    raise ValueError(f"{obj._meta.label} has no column that a rival could write.")


@contextmanager
def not_mutated(*objects: models.Model) -> Iterator[None]:
    """Assert that a block leaves objects as they are, in memory: ones that others share, from a cache for example."""
    before = [(obj, Snapshot(obj, obj._state.db or DEFAULT_DB_ALIAS)) for obj in objects]
    yield
    for obj, snapshot in before:
        if changed := snapshot.changed(obj):
            raise AssertionError(
                f"{obj._meta.label} {obj.pk} is shared, and its {', '.join(changed)} was changed. Change a copy that "
                "was read for this purpose."
            )

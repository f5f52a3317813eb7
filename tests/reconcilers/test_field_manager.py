"""Reconcilers that write under a name of their own: guarded by the ownership of what they changed."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from occ.ownership import owners_of
from reconcilers import Reconciler, Result
from reconcilers.controller import Outcome, turn
from reconcilers.exceptions import InvalidReconciler
from reconcilers.models import WorkItem
from tests.library.models import Column, Counter, Gate
from tests.races.test_counters import in_threads
from tests.reconcilers.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_owns_what_it_changed_and_gives_up_nothing(register: Register) -> None:
    @register
    class Rollout(Reconciler):
        model = Gate
        field_manager = "rollout"

        def reconcile(self, gate: Gate) -> None:
            if gate.image == "":
                gate.image = "shop:1"
            elif gate.replicas == 1:
                gate.replicas = 2
            gate.hits = gate.replicas

    gate = Gate.objects.create()

    outcomes = [turn(Rollout, gate.pk), turn(Rollout, gate.pk)]

    gate.refresh_from_db()
    assert outcomes == [Outcome.DONE, Outcome.DONE]
    assert (gate.image, gate.replicas, gate.hits, gate.version) == ("shop:1", 2, 2, 3)
    assert gate.managed_fields == {
        "image": {"at": 2, "apply": ["rollout"]},
        "replicas": {"at": 3, "apply": ["rollout"]},
    }
    assert WorkItem.objects.get().observed_version == 3


def test_a_rival_on_other_fields_is_not_in_its_way(register: Register) -> None:
    runs = []

    @register
    class Rollout(Reconciler):
        model = Gate
        field_manager = "rollout"

        def reconcile(self, gate: Gate) -> None:
            runs.append(gate.version)
            if gate.replicas == 1:
                Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")
                gate.image = "shop:1"

    gate = Gate.objects.create()

    outcome = turn(Rollout, gate.pk)

    gate.refresh_from_db()
    assert (outcome, runs) == (Outcome.DONE, [1])
    assert (gate.replicas, gate.image, gate.version) == (5, "shop:1", 3)
    assert WorkItem.objects.get().observed_version == 1  # what it has seen: a scan would find the rival's change


def test_what_others_own_is_refused_and_noted(register: Register) -> None:
    @register
    class Rollout(Reconciler):
        model = Gate
        field_manager = "rollout"

        def reconcile(self, gate: Gate) -> None:
            gate.replicas = 9

    gate = Gate.objects.create()
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    outcome = turn(Rollout, gate.pk)

    assert outcome == Outcome.FAILED
    error = f"FieldConflict: apply of library.Gate {gate.pk} by 'rollout' refused, nothing was written: replicas (5)"
    assert WorkItem.objects.get().last_error.startswith(error)
    assert Gate.objects.get().replicas == 5


def test_it_can_take_what_others_own(register: Register) -> None:
    @register
    class Rollout(Reconciler):
        model = Gate
        field_manager = "rollout"
        force_fields = True

        def reconcile(self, gate: Gate) -> None:
            gate.replicas = 9

    gate = Gate.objects.create()
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="hpa")

    outcome = turn(Rollout, gate.pk)

    gate.refresh_from_db()
    assert (outcome, gate.replicas) == (Outcome.DONE, 9)
    assert [owner.manager for owner in owners_of(gate, "replicas")] == ["rollout"]


def test_what_it_saves_beside_its_row_is_in_its_name(register: Register) -> None:
    @register
    class Rollout(Reconciler):
        model = Gate
        field_manager = "rollout"

        def reconcile(self, gate: Gate) -> None:
            Column.objects.create(f0=5)

    turn(Rollout, Gate.objects.create().pk)

    assert Column.objects.get().managed_fields == {"f0": {"at": 1, "update": "rollout"}}


@pytest.mark.parametrize(
    ("model", "name", "problem"),
    [(Counter, "rollout", r"library\.Counter knows no ownership"), (Gate, "a\nb", "1 to 128 printable characters")],
)
def test_a_name_that_cannot_own_is_refused(register: Register, model: Any, name: str, problem: str) -> None:
    class Wrong(Reconciler):
        field_manager = name

        def reconcile(self, gate: Any) -> None: ...

    Wrong.model = model

    with pytest.raises(InvalidReconciler, match=problem):
        register(Wrong)


def test_two_reconcilers_of_different_fields_never_conflict(register: Register) -> None:
    steps, runs = 15, [0, 0]

    def counting(index: int) -> type[Reconciler]:
        field = f"f{index}"

        def reconcile(self: Reconciler, row: Column) -> Result | None:
            runs[index] += 1
            if getattr(row, field) < steps:
                setattr(row, field, getattr(row, field) + 1)
            return Result(requeue_after=dt.timedelta(0))

        body = {"model": Column, "field_manager": field, "reconcile": reconcile}
        return register(type(f"Counting{index}", (Reconciler,), body))

    classes = [counting(0), counting(1)]
    row = Column.objects.create()

    def work(index: int) -> list[Outcome]:
        outcomes = []
        while runs[index] < steps:
            outcomes.append(turn(classes[index], row.pk))
        return [outcome for outcome in outcomes if outcome != Outcome.NOT_DUE]

    outcomes = in_threads(work, 2)

    row.refresh_from_db()
    assert outcomes == [[Outcome.DONE] * steps] * 2
    assert runs == [steps, steps]
    assert (row.f0, row.f1, row.version) == (steps, steps, 1 + 2 * steps)
    assert [owners_of(row, name)[0].manager for name in ("f0", "f1")] == ["f0", "f1"]

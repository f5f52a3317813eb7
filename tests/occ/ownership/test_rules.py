"""Random histories of applies and plain saves, against a model of the rules that is written another way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import occ
from occ.ownership import FieldConflict, owners_of
from tests.library.models import Gate

pytestmark = pytest.mark.django_db

DEFAULTS = {"replicas": 1, "image": "", "spec": {}, "opens_at": None, "size": 3}
VALUES = {
    "replicas": st.sampled_from([1, 2, 3]),
    "image": st.sampled_from(["", "a", "b"]),
    "spec": st.sampled_from([{}, {"x": 1}, {"x": [True]}, {"y": {"b": 1, "a": 2}}]),
    "opens_at": st.none(),
    "size": st.sampled_from([3, 4]),
}
MANAGERS = st.sampled_from(["hpa", "vpa", 'it\'s "%s"', "ü"])
WANTED = st.fixed_dictionaries({}, optional=VALUES)


def shown(value: object) -> str:
    """Return ``value`` as text that tells 1 from True; the order of a JSON object's keys is not its content."""
    return json.dumps(value, sort_keys=True)


@dataclass
class Row:
    """What the row should be: values, and the owners of each field as (manager, operation)."""

    values: dict[str, object] = field(default_factory=lambda: dict(DEFAULTS))
    owners: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: {name: set() for name in DEFAULTS})
    version: int = 1

    def apply(self, wanted: dict[str, object], manager: str, force: bool) -> set[tuple[str, str, str]]:
        me = (manager, "apply")
        contested = {
            (name, other, shown(self.values[name]))
            for name, value in wanted.items()
            if shown(self.values[name]) != shown(value) and not force
            for other, _ in self.owners[name] - {me}
        }
        if contested:
            return contested
        before = shown((self.values, sorted((name, sorted(who)) for name, who in self.owners.items())))
        for name, who in self.owners.items():
            if name in wanted:
                if shown(self.values[name]) != shown(wanted[name]):
                    who.clear()
                who.add(me)
                self.values[name] = wanted[name]
            elif me in who:
                who.discard(me)
                if not who:
                    self.values[name] = DEFAULTS[name]
        after = shown((self.values, sorted((name, sorted(who)) for name, who in self.owners.items())))
        self.version += before != after
        return set()

    def save(self, wanted: dict[str, object], manager: str, *, named: bool) -> None:
        for name, value in wanted.items():
            if named or shown(self.values[name]) != shown(value):
                self.owners[name] = {(manager, "update")}
            self.values[name] = value
        self.version += 1


def owners(gate: Gate) -> dict[str, set[tuple[str, str]]]:
    return {name: set(owners_of(gate, name)) for name in gate.managed_fields}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), WANTED, MANAGERS, st.booleans()),
        st.tuples(st.just("save"), WANTED, MANAGERS, st.none()),
        st.tuples(st.just("update"), st.fixed_dictionaries({"replicas": VALUES["replicas"]}), MANAGERS, st.none()),
    ),
    max_size=12,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_any_history_leaves_the_values_and_owners_that_the_rules_give(steps):
    gate, row = Gate.objects.create(), Row()

    for act, wanted, manager, force in steps:
        with occ.field_manager(manager):
            if act == "apply":
                expected = row.apply(wanted, manager, force)
                try:
                    Gate.objects.apply(gate.pk, wanted, manager=manager, force=force)
                    refused = set()
                except FieldConflict as conflict:
                    refused = {(each.field, each.manager, shown(each.value)) for each in conflict.conflicts}
                assert refused == expected
            elif act == "save":
                row.save(wanted, manager, named=False)
                fresh = Gate.objects.get(pk=gate.pk)
                for name, value in wanted.items():
                    setattr(fresh, name, value)
                fresh.save()
            else:
                row.save(wanted, manager, named=True)
                Gate.objects.filter(pk=gate.pk).update(**wanted)

        gate.refresh_from_db()
        assert shown({name: getattr(gate, name) for name in DEFAULTS}) == shown(row.values)
        assert owners(gate) == {name: who for name, who in row.owners.items() if who}
        assert gate.version == row.version

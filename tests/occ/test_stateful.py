"""Random interleavings of all write paths by several holders of the row, with rollbacks, against a model.

The model is the rule itself: a write of a copy succeeds exactly when the copy's version is the row's, and the copy does
not show a write that has been rolled back. What is checked after each step: no lost update, no false conflict, memory
and row agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from django.db import connection
from django.db.models import F
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import occ
from tests.library.models import Counter
from tests.races.paths import unique_fields

KEYS = st.integers(0, 1)
COPIES = st.integers(0, 3)


@dataclass
class Row:
    value: int
    version: int


@dataclass
class Copy:
    """An object that somebody holds, and what it must look like."""

    instance: Counter
    key: int
    version: int
    read_at: int  # how many writes there were before
    undone: bool = False  # one of them has been rolled back, so the object shows what never was


@dataclass
class Write:
    """A write of the open transaction: of which row (None: of some, which is not known), and through which copy."""

    key: int | None
    copy: Copy | None = None
    version: int = 0  # of that copy before


@dataclass
class Saved:
    """The world at a savepoint."""

    sid: str
    rows: dict[int, Row]
    writes: int


class Writers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, Row] = {}
        self.pks: dict[int, int] = {}
        self.copies: dict[int, Copy] = {}
        self.savepoints: list[Saved] = []
        self.writes: list[Write] = []
        self.next_value = 0

    @initialize()
    def two_rows(self) -> None:
        for key in (0, 1):
            counter = Counter.objects.create()
            self.pks[key] = counter.pk
            self.rows[key] = Row(0, 1)
        for slot in range(4):
            self.read(slot % 2, slot)

    def value(self) -> int:
        self.next_value += 1
        return self.next_value

    @rule(key=KEYS, slot=COPIES)
    def read(self, key: int, slot: int) -> None:
        if key in self.rows:
            instance = Counter.objects.get(pk=self.pks[key])
            self.copies[slot] = Copy(instance, key, self.rows[key].version, len(self.writes))

    def is_current(self, copy: Copy) -> bool:
        row = self.rows.get(copy.key)
        return row is not None and row.version == copy.version and not copy.undone

    def write(self, slot: int, act: str) -> None:
        copy = self.copies.get(slot)
        if copy is None:
            return
        instance, row, value = copy.instance, self.rows.get(copy.key), self.value()
        may = self.is_current(copy)
        instance.value = value if act != "expression" else F("value") + value
        try:
            {
                "save": instance.save,
                "some fields": lambda: instance.save(update_fields=["value"]),
                "bulk": lambda: Counter.objects.bulk_update([instance], ["value"]),
                "expression": lambda: instance.save(update_fields=["value"]),
                "touch": instance.touch,
                "delete": instance.delete,
            }[act]()
        except occ.Conflict as conflict:
            assert not may, f"{act} was refused though the row is at {copy.version}"
            assert conflict.actual == (row.version if row else None)
            assert conflict.expected == copy.version
        else:
            assert may, f"{act} of version {copy.version} overwrote {row}"
            if act == "delete":
                del self.rows[copy.key]
                del self.copies[slot]
            else:
                assert row is not None
                self.writes.append(Write(copy.key, copy, copy.version))
                copy.version += 1
                stored = {"expression": row.value + value, "touch": row.value}.get(act, value)
                self.rows[copy.key] = Row(stored, copy.version)

    @rule(slot=COPIES, act=st.sampled_from(["save", "some fields", "bulk", "expression", "touch"]))
    def write_a_copy(self, slot: int, act: str) -> None:
        self.write(slot, act)

    @precondition(lambda self: len(self.rows) == 2)
    @rule(slot=COPIES)
    def delete_a_copy(self, slot: int) -> None:
        self.write(slot, "delete")

    # Steps that chance seldom puts together.
    @precondition(lambda self: len(self.savepoints) < 3)
    @rule(key=KEYS, slot=COPIES, act=st.sampled_from(["save", "some fields", "bulk", "expression", "touch", "delete"]))
    def write_a_copy_that_shows_an_undone_write(self, key: int, slot: int, act: str) -> None:
        self.savepoint()
        self.update(key)
        self.read(key, slot)
        self.roll_back()
        self.update(key)
        self.write(slot, act)

    @precondition(lambda self: len(self.savepoints) < 3)
    @rule(slot=COPIES, act=st.sampled_from(["save", "bulk", "touch"]), rivals=st.booleans())
    def write_a_copy_whose_own_write_was_undone(self, slot: int, act: str, rivals: bool) -> None:
        self.savepoint()
        self.write(slot, act)
        if rivals and slot in self.copies:
            self.update(self.copies[slot].key)
        self.refresh(slot, True)
        self.roll_back()
        self.write(slot, act)

    @rule(slots=st.lists(COPIES, min_size=2, max_size=3, unique=True), skip=st.booleans())
    def write_copies_together(self, slots: list[int], skip: bool) -> None:
        copies = {copy.key: copy for copy in (self.copies.get(slot) for slot in slots) if copy}
        stale = {key for key, copy in copies.items() if not self.is_current(copy)}
        value = self.value()
        for copy in copies.values():
            copy.instance.value = value
        instances = [copy.instance for copy in copies.values()]
        try:
            if skip:
                skipped = Counter.objects.bulk_update(instances, ["value"], on_conflict="skip")
                assert skipped == [copies[key].instance for key in copies if key in stale]
                copies = {key: copy for key, copy in copies.items() if key not in stale}
                stale = set()
            else:
                Counter.objects.bulk_update(instances, ["value"])
        except occ.BulkConflict as conflict:
            assert {c.pk for c in conflict.conflicts} == {self.pks[key] for key in stale}
        else:
            assert not stale
            for key, copy in copies.items():
                self.writes.append(Write(key, copy, copy.version))
                copy.version += 1
                self.rows[key] = Row(value, copy.version)

    @rule(key=KEYS)
    def update(self, key: int) -> None:
        value = self.value()
        assert Counter.objects.filter(pk=self.pks[key]).update(value=value) == (key in self.rows)
        if key in self.rows:
            self.writes.append(Write(None))
            self.rows[key] = Row(value, self.rows[key].version + 1)

    @rule(key=KEYS, way=st.sampled_from(["mutate", "retry_on_conflict"]))
    def read_and_write(self, key: int, way: str) -> None:
        value = self.value()

        @occ.retry_on_conflict
        def retried(pk: int) -> Counter:
            counter = Counter.objects.get(pk=pk)
            counter.value = value
            counter.save()
            return counter

        def mutated(pk: int) -> Counter:
            return Counter.objects.mutate(pk, lambda copy: setattr(copy, "value", value))

        write = mutated if way == "mutate" else retried
        if key not in self.rows:
            with pytest.raises(Counter.DoesNotExist):
                write(self.pks[key])
            return
        saved = write(self.pks[key])
        self.writes.append(Write(key))
        self.rows[key] = Row(value, self.rows[key].version + 1)
        assert saved.version == self.rows[key].version

    @rule(key=KEYS, way=st.sampled_from(["upsert", "update_or_create"]))
    def write_or_insert(self, key: int, way: str) -> None:
        pk, value, row = self.pks[key], self.value(), self.rows.get(key)
        if way == "upsert":
            Counter.objects.bulk_create(
                [Counter(pk=pk, value=value)],
                update_conflicts=True,
                update_fields=["value"],
                unique_fields=unique_fields(),
            )
        else:
            Counter.objects.update_or_create(pk=pk, defaults={"value": value})
        self.writes.append(Write(None if way == "upsert" else key))
        self.rows[key] = Row(value, row.version + 1 if row else 1)

    @rule(slot=COPIES, whole=st.booleans())
    def refresh(self, slot: int, whole: bool) -> None:
        copy = self.copies.get(slot)
        if copy is None or copy.key not in self.rows:
            return
        copy.instance.refresh_from_db(fields=None if whole else ["value"])
        if whole:
            copy.version = self.rows[copy.key].version
            copy.read_at, copy.undone = len(self.writes), False

    @precondition(lambda self: len(self.savepoints) < 3)
    @rule()
    def savepoint(self) -> None:
        sid = connection.savepoint()
        self.savepoints.append(Saved(sid, {key: replace(row) for key, row in self.rows.items()}, len(self.writes)))

    @precondition(lambda self: self.savepoints)
    @rule()
    def roll_back(self) -> None:
        saved = self.savepoints.pop()
        connection.savepoint_rollback(saved.sid)
        connection.savepoint_commit(saved.sid)
        self.rows = saved.rows
        for place in range(len(self.writes) - 1, saved.writes - 1, -1):
            write = self.writes[place]
            if write.copy is not None:
                write.copy.version = write.version
                write.copy.read_at = min(write.copy.read_at, place)  # read again later, it is as it was before
        for copy in self.copies.values():
            seen = [other.key for other in self.writes[saved.writes : copy.read_at]]
            copy.undone = copy.undone or copy.key in seen or None in seen
            copy.read_at = min(copy.read_at, saved.writes)
        del self.writes[saved.writes :]

    @precondition(lambda self: self.savepoints)
    @rule()
    def release(self) -> None:
        connection.savepoint_commit(self.savepoints.pop().sid)

    def check_invariants(self, *args: object, **kwargs: object) -> None:
        if self.pks:
            rows = Counter.objects.values_list("pk", "value", "version")
            found = {pk: (value, version) for pk, value, version in rows}
            assert found == {self.pks[key]: (row.value, row.version) for key, row in self.rows.items()}
            for copy in self.copies.values():
                assert copy.instance.version == copy.version
        super().check_invariants(*args, **kwargs)

    def teardown(self) -> None:
        while self.savepoints:
            connection.savepoint_commit(self.savepoints.pop().sid)
        Counter.objects.all().delete()


@pytest.mark.django_db
def test_no_interleaving_loses_an_update_or_refuses_a_current_write():
    run_state_machine_as_test(
        Writers,
        settings=settings(
            max_examples=100,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

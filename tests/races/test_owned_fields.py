"""Managers of different fields on one row: no conflict at any rate; nothing lost, ownership right."""

from typing import Any

import pytest
from django.db import connection

from occ.ownership import FieldConflict
from tests.library.models import Column, Gate
from tests.races.test_counters import in_threads

pytestmark = pytest.mark.django_db(transaction=True)


class Statements:
    """Counts the statements of one thread that are not the BEGIN and COMMIT of others."""

    def __init__(self) -> None:
        self.reads = self.writes = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.reads += sql.startswith("SELECT")
        self.writes += sql.startswith("UPDATE")
        return execute(sql, params, many, context)


def repeatable_read() -> None:
    statement = {
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "mysql": "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(statement)


def assert_all_is_there(row: Column, managers: int, each: int) -> None:
    row.refresh_from_db()
    owned = {name: {"apply": entry["apply"]} for name, entry in row.managed_fields.items()}
    assert [getattr(row, f"f{i}") for i in range(managers)] == [each] * managers
    assert row.version == 1 + managers * each
    assert owned == {f"f{i}": {"apply": [f"manager-{i}"]} for i in range(managers)}


@pytest.mark.parametrize(("managers", "each"), [(2, 50), (10, 15)])
def test_managers_of_different_fields_each_need_one_write_per_apply(managers: int, each: int):
    row = Column.objects.create()

    def work(index: int) -> int:
        counted = Statements()
        with connection.execute_wrapper(counted):
            for value in range(1, each + 1):
                Column.objects.apply(row.pk, {f"f{index}": value}, manager=f"manager-{index}")
        return counted.writes

    writes = in_threads(work, managers)

    assert writes == [each] * managers
    assert_all_is_there(row, managers, each)


@pytest.mark.parametrize(("managers", "each"), [(2, 30), (10, 10)])
def test_under_repeatable_read_nothing_is_refused_either(managers: int, each: int):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one isolation level")
    row = Column.objects.create()

    def work(index: int) -> None:
        repeatable_read()
        for value in range(1, each + 1):
            Column.objects.apply(row.pk, {f"f{index}": value}, manager=f"manager-{index}")

    in_threads(work, managers)

    assert_all_is_there(row, managers, each)


def test_appliers_savers_and_updaters_of_one_row_lose_nothing():
    row = Column.objects.create()
    each = 20

    def work(index: int) -> None:
        name = f"f{index}"
        for value in range(1, each + 1):
            if index == 0:
                Column.objects.mutate(row.pk, lambda copy, value=value: setattr(copy, "f0", value))
            elif index == 1:
                Column.objects.filter(pk=row.pk).update(f1=value)
            else:
                Column.objects.apply(row.pk, {name: value}, manager=f"manager-{index}")

    in_threads(work, 4)

    row.refresh_from_db()
    owned = {name: {k: v for k, v in entry.items() if k != "at"} for name, entry in row.managed_fields.items()}
    assert (row.f0, row.f1, row.f2, row.f3, row.version) == (each, each, each, each, 1 + 4 * each)
    assert owned == {
        "f0": {"update": "unknown"},
        "f1": {"update": "unknown"},
        "f2": {"apply": ["manager-2"]},
        "f3": {"apply": ["manager-3"]},
    }


def test_of_many_who_want_one_field_one_has_it_and_the_others_are_told():
    gate = Gate.objects.create()

    def work(index: int) -> str:
        try:
            Gate.objects.apply(gate.pk, {"replicas": 10 + index, "image": f"i{index}"}, manager=f"m{index}")
        except FieldConflict as refused:
            return "; ".join(f"{each.field} {each.manager} {each.value}" for each in refused.conflicts)
        return "won"

    told = in_threads(work, 6)

    gate.refresh_from_db()
    winner = told.index("won")
    has_it = f"replicas m{winner} {10 + winner}; image m{winner} i{winner}"
    assert sorted(told) == sorted(["won", *[has_it] * 5])
    assert (gate.replicas, gate.image, gate.version) == (10 + winner, f"i{winner}", 2)


def test_one_manager_in_many_places_is_never_refused():
    gate = Gate.objects.create()

    def work(index: int) -> None:
        for value in range(10):
            Gate.objects.apply(gate.pk, {"replicas": 100 * index + value}, manager="hpa")

    in_threads(work, 4)

    gate.refresh_from_db()
    assert gate.replicas % 100 == 9
    assert gate.managed_fields == {"replicas": {"at": gate.version, "apply": ["hpa"]}}


def test_sharing_a_value_never_overwrites_a_newer_one():
    """Who shares decided on a value; when its owner moves it in between, the sharer is told, and writes nothing."""
    gate = Gate.objects.create()
    Gate.objects.apply(gate.pk, {"replicas": 5}, manager="owner")
    moved = []

    def move(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE") and not moved:
            moved.append(True)
            Gate.objects.apply(gate.pk, {"replicas": 6}, manager="owner")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(move), pytest.raises(FieldConflict) as refused:
        Gate.objects.apply(gate.pk, {"replicas": 5}, manager="sharer")

    assert refused.value.conflicts == (("replicas", "owner", 6),)
    assert Gate.objects.values_list("replicas", flat=True).get() == 6

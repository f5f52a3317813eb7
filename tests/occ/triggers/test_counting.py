"""What the version trigger counts, on the database in use."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, models

from occ.exceptions import Conflict
from tests.triggers.models import Gate, Meter, Part, Slot, Truck, Vehicle

pytestmark = pytest.mark.django_db


def write(model: type[models.Model], **columns: Any) -> int:
    """Update all rows as a program that knows nothing of versions does."""
    quote = connection.ops.quote_name
    assignments = ", ".join(f"{quote(column)} = %s" for column in columns)
    table = quote(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {assignments}", list(columns.values()))
        return int(cursor.rowcount)


def version(instance: models.Model) -> int:
    field = instance._occ_version_field  # type: ignore[attr-defined]
    return int(type(instance)._base_manager.values_list(field.name, flat=True).get(pk=instance.pk))


def test_a_raw_update_makes_the_object_read_before_stale() -> None:
    part = Part.objects.create(name="bolt", stock=1)

    write(Part, stock=5)

    assert version(part) == 2
    part.stock = 2
    with pytest.raises(Conflict) as refused:
        part.save()
    assert (refused.value.expected, refused.value.actual) == (1, 2)


def test_a_raw_update_counts_each_row_once() -> None:
    for number in range(3):
        Part.objects.create(name=str(number))

    rows = write(Part, stock=5)
    write(Part, stock=6)

    assert rows == 3
    assert list(Part.objects.values_list("version", "stock")) == [(3, 6)] * 3


def test_a_save_counts_once() -> None:
    part = Part.objects.create(name="bolt")

    part.stock = 2
    part.save()
    part.save(update_fields=["stock"])

    assert (part.version, version(part)) == (3, 3)


def test_the_other_writes_of_the_orm_count_once() -> None:
    part = Part.objects.create(name="bolt")

    Part.objects.update(stock=3)
    Part.objects.update_or_create(defaults={"stock": 4}, name="bolt")
    Part.objects.mutate(part.pk, lambda fresh: setattr(fresh, "stock", 5))

    assert version(part) == 4


def test_the_bulk_writes_of_the_orm_count_once() -> None:
    Part.objects.bulk_create([Part(name=str(number)) for number in range(3)])
    keys = [part.pk for part in Part.objects.order_by("pk")]
    parts = list(Part.objects.order_by("pk"))

    for part in parts:
        part.stock = 7
    Part.objects.bulk_update(parts, ["stock"])
    assert list(Part.objects.values_list("version", "stock")) == [(2, 7)] * 3

    conflicts = {} if connection.vendor == "mysql" else {"unique_fields": ["id"]}
    Part.objects.bulk_create(
        [Part(pk=key, name="x", stock=8) for key in keys], update_conflicts=True, update_fields=["stock"], **conflicts
    )
    assert list(Part.objects.values_list("version", "stock")) == [(3, 8)] * 3


def test_a_raw_update_that_moves_the_version_itself_is_left_alone() -> None:
    part = Part.objects.create(name="bolt")

    write(Part, stock=5, version=7)

    assert version(part) == 7


def test_a_raw_upsert_counts() -> None:
    part = Part.objects.create(name="bolt")

    if connection.vendor == "mysql":
        clause = "ON DUPLICATE KEY UPDATE stock = 9"
    else:
        clause = "ON CONFLICT (id) DO UPDATE SET stock = 9"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO triggers_part (id, name, stock) VALUES (%s, 'nut', 1) {clause}", [part.pk])

    assert (version(part), Part.objects.get().stock) == (2, 9)


def test_a_raw_insert_starts_at_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO triggers_part (name, stock) VALUES ('nut', 1)")

    assert Part.objects.get().version == 1


@pytest.mark.parametrize("columns", [{"readings": 7}, {"seen_by_id": None}, {"readings": 7, "seen_by_id": None}])
def test_a_raw_update_of_unguarded_columns_alone_does_not_count(columns: dict[str, Any]) -> None:
    meter = Meter.objects.create(name="gas", readings=1, seen_by=Part.objects.create(name="bolt"))

    write(Meter, **columns)

    assert version(meter) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"name": "water"},
        {"name": "GAS"},
        {"name": "gas "},
        {"notes": "x" * 100_000},
        {"details": '{"unit": "kWh"}'},
        {"name": "water", "readings": 7},
    ],
)
def test_a_raw_update_of_a_guarded_column_counts_whatever_else_it_writes(columns: dict[str, Any]) -> None:
    meter = Meter.objects.create(name="gas")

    write(Meter, **columns)

    assert version(meter) == 2


def test_derived_columns_written_by_the_orm_do_not_count_under_the_trigger() -> None:
    meter = Meter.objects.create(name="gas")

    Meter.objects.update(readings=models.F("readings") + 5)
    Meter.objects.update(readings=5)
    meter.readings = 6
    meter.save(update_fields=["readings"])

    assert (version(meter), Meter.objects.get().doubled) == (1, 12)
    meter.name = "water"
    meter.save()
    assert version(meter) == 2


def test_quoted_names_composite_keys_and_other_version_names_work() -> None:
    slot = Slot.objects.create(row=1, place=1)
    other = Slot.objects.create(row=1, place=2)

    with connection.cursor() as cursor:
        quote = connection.ops.quote_name
        table = quote(Slot._meta.db_table)
        cursor.execute(f"UPDATE {table} SET content = 'x' WHERE place = %s", [2])

    assert (version(slot), version(other)) == (1, 2)
    slot.content = "y"
    slot.save()
    assert version(slot) == 2


def test_a_raw_update_that_moves_the_key_counts() -> None:
    slot = Slot.objects.create(row=1, place=1)

    write(Slot, group=2)

    assert Slot.objects.get().revision == slot.revision + 1


def test_the_root_of_a_hierarchy_counts_for_all_its_tables() -> None:
    truck = Truck.objects.create(name="Otto", tonnes=7)

    write(Vehicle, name="Karl")
    fresh = Truck.objects.get()
    fresh.tonnes = 8
    fresh.save()

    assert version(truck) == 3
    assert Truck.objects.get().tonnes == 8


def test_the_trigger_of_a_migration_operation_counts_and_knows_the_unguarded_fields() -> None:
    gate = Gate.objects.create(name="north")

    write(Gate, opened=5)
    assert version(gate) == 1

    write(Gate, name="south")
    assert version(gate) == 2

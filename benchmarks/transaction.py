"""What many saves in one transaction cost, against plain Django's: ``python -m benchmarks.transaction [--quick]``.

The journal that takes versions back after a rollback grows with every save of a transaction and is dropped at its end.
This measures, for 100,000 saves: their time and that of the commit, as ratios, and the memory that is held before the
commit. (Dropping the journal of 100,000 saves takes some 10 ms, much of a commit that has little to do; so the
aim is set on both together.) And it measures a save in a table of a million rows and in one of a thousand. The database
is the one of DATABASE_URL (a test database is created on it and dropped again), by default SQLite.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

AIM = 1.05
AIM_MEGABYTES = 20
MEGABYTE = 2**20
STRAYED = "   (the control strayed: this says nothing)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 saves, 20,000 rows: to see that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    share = 50 if options.quick else 1
    try:
        print(f"{connection.display_name}, Django {django.get_version()}; ratios to plain Django")
        report: dict[str, Any] = {"database": connection.vendor, "django": django.get_version()}
        missed = transactions(report, saves=100_000 // share, rounds=3 if options.quick else 5)
        missed += table_sizes(report, rows=1_000_000 // share, rounds=200 if options.quick else 2000)
    finally:
        connection.creation.destroy_test_db("", verbosity=0)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if missed else 0


def transactions(report: dict[str, Any], *, saves: int, rounds: int) -> int:
    """Print what ``saves`` saves in one transaction cost; return how many aims were missed."""
    from benchmarks.measure import CONTROL, control_holds, ratio
    from tests.library.models import Counter, PlainCounter

    models = {"plain": PlainCounter, CONTROL: PlainCounter, "guarded": Counter}
    objects = {
        name: model.objects.bulk_create([model() for _ in range(saves)])  # type: ignore[attr-defined]
        for name, model in models.items()
    }
    timings: dict[str, dict[str, list[float]]] = {"saves": {}, "commit": {}, "saves and commit": {}}
    chance, order = random.Random(1), list(models)  # noqa: S311
    for name in order:
        save_all(objects[name][: saves // 10])
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            saving, committing = save_all(objects[name])
            for part, seconds in zip(timings, (saving, committing, saving + committing), strict=True):
                timings[part].setdefault(name, []).append(seconds)
    missed = 0
    for part, times in timings.items():
        ratios = [ratio(name, times[name], times["plain"], chance) for name in (CONTROL, "guarded")]
        usable = control_holds(ratios)
        missed += usable and part == "saves and commit" and ratios[1].low > AIM
        note = "" if usable else STRAYED
        report[part] = {"usable": usable, "ratios": [found.as_dict() for found in ratios]}
        print(
            f"  {saves:,} {part:<18} {ratios[1].ratio:6.3f}  [{ratios[1].low:.3f}, {ratios[1].high:.3f}]"
            f"   control {ratios[0].ratio:.3f}, plain {statistics.median(times['plain']) * 1000:,.1f} ms{note}"
        )
    held = {name: memory_of(objects[name]) / MEGABYTE for name in ("plain", "guarded")}
    report["megabytes"] = {name: round(size, 1) for name, size in held.items()}
    print(f"  {saves:,} saves hold {held['guarded']:.1f} MB before the commit, plain ones {held['plain']:.1f} MB")
    return missed + (held["guarded"] > held["plain"] * AIM + AIM_MEGABYTES)


def save_all(objects: Sequence[Any]) -> tuple[float, float]:
    """Save the objects in one transaction; return the seconds of the saves and those of the commit."""
    from django.db import transaction

    gc.collect()
    gc.disable()
    try:
        with transaction.atomic():
            started = time.perf_counter()
            for instance in objects:
                instance.save()
            saved = time.perf_counter()
        return saved - started, time.perf_counter() - saved
    finally:
        gc.enable()


def memory_of(objects: Sequence[Any]) -> float:
    """Return the bytes that saving the objects in one transaction holds until it is committed."""
    from django.db import transaction

    gc.collect()
    with transaction.atomic():
        objects[0].save()
        tracemalloc.start()
        try:
            for instance in objects:
                instance.save()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()


def table_sizes(report: dict[str, Any], *, rows: int, rounds: int) -> int:
    """Print what a save costs in tables of a thousand and of ``rows`` rows; return how many aims were missed."""
    from benchmarks.measure import CONTROL, compare, control_holds
    from tests.library.models import Counter, PlainCounter

    missed = 0
    for size in (1_000, rows):
        fill(Counter, size)
        fill(PlainCounter, size)
        savers = {"plain": saver(PlainCounter), CONTROL: saver(PlainCounter), "guarded": saver(Counter)}
        ratios = compare(savers, baseline="plain", rounds=rounds)
        guarded = next(ratio for ratio in ratios if ratio.variant == "guarded")
        usable = control_holds(ratios)
        note = "" if usable else STRAYED
        missed += usable and guarded.low > AIM
        report[f"a save among {size:,} rows"] = {"usable": usable, **guarded.as_dict()}
        print(
            f"  a save among {size:,} rows  {guarded.ratio:6.3f}  [{guarded.low:.3f}, {guarded.high:.3f}]"
            f"   {guarded.microseconds:,.0f} microseconds{note}"
        )
    return missed


def fill(model: Any, size: int) -> None:
    """Bring the model's table to ``size`` rows, by copying those that it has."""
    from django.db import connection

    columns = ", ".join(connection.ops.quote_name(f.column) for f in model._meta.concrete_fields if not f.primary_key)
    table = connection.ops.quote_name(model._meta.db_table)
    model.objects.all()[:1] or model.objects.create()
    model.objects.filter(pk__gt=model.objects.order_by("pk").first().pk).delete()
    with connection.cursor() as cursor:
        while missing := size - model.objects.count():
            cursor.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} LIMIT {missing}")  # noqa: S608
        if connection.vendor == "postgresql":
            cursor.execute(f"VACUUM ANALYZE {table}")


def saver(model: Any) -> Callable[[], object]:
    """Return a function that saves one of five hundred objects from all over the table, each in its turn."""
    pks = list(model.objects.order_by("pk").values_list("pk", flat=True))
    turns = itertools.cycle(model.objects.in_bulk(pks[:: len(pks) // 500][:500]).values())
    return lambda: next(turns).save()


if __name__ == "__main__":
    raise SystemExit(main())

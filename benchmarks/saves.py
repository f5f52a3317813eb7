"""What a guarded write costs, against plain Django's: ``python -m benchmarks.saves [--quick] [--json PATH]``.

Beside it: a save under ``select_for_update``, django-concurrency's (where it is installed), and, as the floor, the same
conditional UPDATE by the database's driver without Django. The database is the one of DATABASE_URL (a test database is
created on it and dropped again), by default SQLite.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

AIMS = {"save": 1.03, "save(update_fields)": 1.03}
BULK_FIELDS = ["title", "stock", "price"]
BULK_AIMS = {"postgresql": 0.15, "sqlite": 0.10, "mysql": 0.60}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it runs, not to quote")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()

    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.saves_settings"
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        report = measure(rounds=100 if options.quick else 1500, bulk_rounds=2 if options.quick else 7)
    finally:
        connection.creation.destroy_test_db("", verbosity=0)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return show(report)


def measure(*, rounds: int, bulk_rounds: int) -> dict[str, Any]:
    """Measure single and bulk writes on the open database."""
    import django
    from django.conf import settings
    from django.db import connection, transaction

    from benchmarks.measure import CONTROL, compare, control_holds
    from tests.library.models import Book, PlainBook

    def saver(model: Any, **kwargs: Any) -> Callable[[], object]:
        instance = model.objects.create(title="x")

        def save() -> None:
            instance.stock += 1  # MariaDB would find nothing to do for a plain save that changes nothing
            instance.save(**kwargs)

        return save

    def locking() -> Callable[[], object]:
        pk = PlainBook.objects.create(title="x").pk

        def save_locked() -> None:
            with transaction.atomic():
                book = PlainBook.objects.select_for_update().get(pk=pk)
                book.stock += 1
                book.save()

        return save_locked

    def by_driver() -> Callable[[], object]:
        book = Book.objects.create(title="x")
        mark = "?" if connection.vendor == "sqlite" else "%s"
        columns = ("title", "stock", "price", "notes", "details", "author_id", "editor_id", "updated_at", "version")
        assigned = ", ".join(f"{column} = {mark}" for column in columns)
        sql = f"UPDATE library_book SET {assigned} WHERE id = {mark} AND version = {mark}"  # noqa: S608
        numbers = itertools.count(1)

        def update() -> None:
            number = next(numbers)
            cursor = connection.connection.cursor()
            values = ("x", number, "0", "", "{}", None, None, "2030-01-01 00:00:00", number + 1)
            cursor.execute(sql, (*values, book.pk, number))
            assert cursor.rowcount == 1  # noqa: S101
            cursor.close()

        return update

    def peers() -> dict[str, Callable[[], object]]:
        if not settings.PEERS:
            return {}
        from benchmarks.peers.models import ConcurrencyBook

        return {"django-concurrency": saver(ConcurrencyBook)}

    report: dict[str, Any] = {
        "database": f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}",
        "vendor": connection.vendor,
        "django": django.get_version(),
        "python": sys.version.split()[0],
        "single": {},
        "bulk": {},
    }
    for mode, block in (("autocommit", nullcontext()), ("atomic", transaction.atomic())):
        with block:
            ratios = compare(
                {
                    "plain": saver(PlainBook),
                    CONTROL: saver(PlainBook),
                    "save": saver(Book),
                    **({"select_for_update + save": locking()} if mode == "autocommit" else {}),
                    **peers(),
                    "UPDATE by the driver": by_driver(),
                },
                baseline="plain",
                rounds=rounds,
            )
            some = compare(
                {
                    "plain": saver(PlainBook, update_fields=["stock"]),
                    CONTROL: saver(PlainBook, update_fields=["stock"]),
                    "save(update_fields)": saver(Book, update_fields=["stock"]),
                },
                baseline="plain",
                rounds=rounds,
            )
        report["single"][mode] = {
            "usable": control_holds(ratios) and control_holds(some),
            "ratios": [ratio.as_dict() for ratio in (*ratios, *some)],
        }
    for size in (1_000, 10_000):
        guarded, plain = (
            model.objects.bulk_create([model(title=str(n)) for n in range(size)]) for model in (Book, PlainBook)
        )
        writers = {
            "plain": functools.partial(PlainBook.objects.bulk_update, plain, BULK_FIELDS),
            "guarded": functools.partial(Book.objects.bulk_update, guarded, BULK_FIELDS),
        }
        repeats = bulk_rounds if size == 1_000 else max(1, bulk_rounds // 3)
        ratios = compare(writers, baseline="plain", rounds=repeats, warm_up=0)
        report["bulk"][str(size)] = ratios[0].as_dict()
        Book.objects.all().delete()
        PlainBook.objects.all().delete()
    return report


def show(report: dict[str, Any]) -> int:
    """Print the figures beside their aims; return 1 when a usable one misses its aim."""
    missed = 0
    print(f"{report['database']}, Django {report['django']}, Python {report['python']}; ratios to plain Django")
    for mode, found in report["single"].items():
        if not found["usable"]:
            print(f"  {mode}: the control strayed from 1.00, so this run says nothing")
        for ratio in found["ratios"]:
            aim = AIMS.get(ratio["variant"])
            missed += bool(aim and found["usable"] and ratio["low"] > aim)
            print(_line(f"{mode}: {ratio['variant']}", ratio, aim))
    for size, ratio in report["bulk"].items():
        aim = BULK_AIMS[report["vendor"]]
        missed += ratio["ratio"] > aim
        print(_line(f"bulk_update of {int(size):,} rows", ratio, aim))
    return 1 if missed else 0


def _line(name: str, ratio: dict[str, Any], aim: float | None) -> str:
    aimed = f"   aim {aim:.2f}" if aim else ""
    return f"  {name:<42} {ratio['ratio']:6.3f}  [{ratio['low']:.3f}, {ratio['high']:.3f}]{aimed}"


if __name__ == "__main__":
    raise SystemExit(main())

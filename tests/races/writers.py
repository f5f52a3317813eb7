"""A writer that takes any path to any row, and keeps account of what it was told it did."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, IntegrityError

from occ.retry import is_retryable
from tests.races.levels import set_level
from tests.races.paths import BOOK, FILM, Row, Table

TABLES = {"one table": BOOK, "two tables": FILM}
# What these write depends on what others did meanwhile, so they cannot keep account.
UNACCOUNTABLE = {"SET_NULL", "clear of a reverse relation"}


def write_at_random(table: Table, pks: Sequence[Any], level: str, seed: int, times: int) -> Counter[str]:
    """Write ``times`` times, each by a path and to a row that chance picks, and return the account.

    ``number`` and ``versions`` are what the rows must have gained, those included that this writer deleted, less what
    these held: then the sums over all rows and all accounts are the same, whoever met whom.
    """
    set_level(level)
    chance, account = random.Random(seed), Counter[str]()
    names = sorted(table.paths.keys() - UNACCOUNTABLE - {"delete"}) * 3 + ["delete"]
    for _ in range(times):
        path, pk = table.paths[name := chance.choice(names)], chance.choice(pks)
        try:
            carried = path.read(pk)
            held = Row(number=table.number(carried), version=carried.version) if name == "delete" else None
            rows = path.write(carried)
        except ObjectDoesNotExist:
            continue
        except DatabaseError as error:
            if not (is_retryable(error) or isinstance(error, IntegrityError)):  # two may insert a deleted row again
                raise
            account["refused"] += 1
            continue
        if held:
            account.update(number=-held.number, versions=-held.version)
        elif rows != 0:  # an update that found no row
            account.update(number=int(path.adds), versions=1)
        account[name] += 1
    return account


def main() -> None:
    """Run as a process: a table's name, the keys, a level, a seed and a number as JSON; prints the account as JSON."""
    table, pks, level, seed, times = json.loads(sys.argv[1])
    print(json.dumps(write_at_random(TABLES[table], pks, level, seed, times)))

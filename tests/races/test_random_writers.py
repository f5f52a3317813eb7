"""Writers that take every path to the same few rows at once, in threads and in processes: the sums are exact."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from occ.testing import race
from tests.kit.processes import Processes
from tests.races.levels import LEVELS
from tests.races.writers import TABLES, write_at_random

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("level", LEVELS),
    pytest.mark.parametrize("name", TABLES),
]

ROWS, WRITERS, EACH = 3, 4, 40


def check(name: str, pks: list[int], accounts: list[Counter[str]]) -> None:
    table, account = TABLES[name], sum(map(Counter, accounts), Counter())
    rows = [row for row in map(table.look, pks) if row]
    gained = {key: sum(one[key] for one in accounts) for key in ("number", "versions")}

    assert {
        "number": sum(row.number for row in rows),
        "versions": sum(row.version for row in rows),
    } == {"number": gained["number"], "versions": gained["versions"] + len(pks)}, account


def test_threads_lose_nothing(name: str, level: str, seeded_random: Random) -> None:
    pks = [TABLES[name].create() for _ in range(ROWS)]
    seeds = [seeded_random.randrange(10**6) for _ in range(WRITERS)]

    accounts = race(
        *(lambda seed=seed: write_at_random(TABLES[name], pks, level, seed, EACH) for seed in seeds), timeout=300
    )

    assert [type(account) for account in accounts] == [Counter] * WRITERS, accounts
    check(name, pks, accounts)


def test_processes_lose_nothing(name: str, level: str, seeded_random: Random, processes: Processes) -> None:
    pks = [TABLES[name].create() for _ in range(ROWS)]
    script = "import django; django.setup(); from tests.races.writers import main; main()"

    writers = [
        processes.python("-c", script, json.dumps([name, pks, level, seeded_random.randrange(10**6), EACH]))
        for _ in range(WRITERS)
    ]
    for writer in writers:
        assert writer.wait(timeout=300) == 0, writer.output

    check(name, pks, [Counter(json.loads(writer.output.splitlines()[-1])) for writer in writers])

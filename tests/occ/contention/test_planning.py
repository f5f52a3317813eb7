"""The planning tool: what it predicts, how exact it says to be, and what it refuses."""

from __future__ import annotations

import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from occ.contention.planning import MOST_WRITERS, STATED_ERROR, scale_down
from occ.contention.simulation import STRATEGIES, Load, Simulation

ROOT = Path(__file__).resolve().parents[3]
CALM = Load(writers=20, keys=100, window=0.02, rate=1.0)


def plan(*arguments: str) -> dict[str, Any]:
    output = StringIO()
    call_command("contention", "plan", *arguments, "--json", stdout=output)
    found: dict[str, Any] = json.loads(output.getvalue())
    return found


def test_rare_conflicts_are_as_many_as_random_arrivals_make() -> None:
    # An attempt is refused when another one commits on its key between its read and its UPDATE.
    vulnerable = CALM.window + 2 * CALM.statement
    expected = 1 - math.exp(-CALM.writers * CALM.rate / CALM.keys * vulnerable)

    found = Simulation(CALM, "optimistic", seconds=2000).run()

    assert found.successes > 30_000
    assert found.conflict_rate == pytest.approx(expected, rel=0.2)


def test_owned_and_queued_writes_meet_no_conflict_and_locks_bound_the_tries() -> None:
    hot = Load(writers=40, keys=1, window=0.01, rate=5.0)

    found = {each: Simulation(hot, each, seconds=60).run() for each in STRATEGIES}

    assert [found[each].conflicts for each in ("owned", "queued")] == [0, 0]
    assert found["escalated"].given_up == 0 < found["optimistic"].given_up
    assert found["escalated"].statements_per_success < found["optimistic"].statements_per_success / 2
    assert found["owned"].statements_per_success == pytest.approx(2, abs=0.05)
    assert found["queued"].statements_per_success < 3


def test_the_same_seed_gives_the_same_prediction() -> None:
    arguments = ("--writers", "50", "--keys", "5", "--window", "10ms", "--rate", "2/s")

    assert plan(*arguments) == plan(*arguments)
    assert plan(*arguments) != plan(*arguments, "--seed", "2")


def test_a_large_load_is_scaled_down_to_one_that_is_as_hot() -> None:
    load = Load(writers=10_000, keys=200, window=0.05, rate=2.0, workers=40)

    scaled = scale_down(load)

    assert (scaled.writers, scaled.keys, scaled.workers) == (MOST_WRITERS, 20, 4)


def test_fewer_keys_than_can_be_scaled_keep_their_writers() -> None:
    assert scale_down(Load(writers=50_000, keys=1, window=0.05, rate=0.1)).writers == 50_000


def test_the_stated_error_is_the_measured_one() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "plan.json").read_text())

    errors = [100 * abs(load["measured"] - load["simulated"]) for load in measured["loads"]]
    assert STATED_ERROR == measured["largest_error"] == round(max(errors), 1)


def test_it_prints_a_table_with_its_error() -> None:
    output = StringIO()
    call_command(
        "contention", "plan", "--writers", "20", "--keys", "100", "--window", "20ms", "--rate", "60/min", stdout=output
    )

    lines = output.getvalue().splitlines()
    assert lines[0] == "20 writers at 1/s on 100 keys: 0.20 writes/s for each key, window 20 ms."
    assert [line.split()[0] for line in lines[3:7]] == ["optimistic", "escalated", "owned", "queued"]
    assert lines[-2].startswith("Below the line of 5.0 %")
    assert f"within {STATED_ERROR} points of those measured on PostgreSQL" in lines[-1]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--window", "50", "no length of time: write 50ms"),
        ("--window", "-5ms", "expected one argument"),
        ("--window", "2h", "longer than an hour"),
        ("--rate", "2", "no rate above 0: write 2/s"),
        ("--rate", "0/s", "no rate above 0"),
        ("--writers", "0", "no whole number from 1"),
        ("--writers", "many", "no whole number from 1"),
        ("--keys", "1.5", "no whole number from 1"),
        ("--statement", "fast", "no length of time"),
        ("--workers", "0", "no whole number from 1 to 10000"),
    ],
)
def test_wrong_arguments_are_named(option: str, value: str, message: str) -> None:
    arguments = {"--writers": "10", "--keys": "5", "--window": "10ms", "--rate": "2/s", option: value}

    with pytest.raises(CommandError) as error:
        call_command("contention", "plan", *[text for pair in arguments.items() for text in pair])

    assert option in str(error.value) and message in str(error.value)

"""``manage.py contention plan``: what a load will meet, before anybody writes the code that makes it."""

from __future__ import annotations

import argparse
import json
import math
import re
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from occ.conf import occ_settings
from occ.contention.simulation import STRATEGIES, Load, Outcome, Simulation, Strategy

# The largest difference between the simulated and the measured conflict rate, in percentage points, over the loads of
# benchmarks/results/plan.json (a test compares the two).
STATED_ERROR = 2.8

# A larger load is scaled down: rows are alike, so some of them tell as much as all.
MOST_WRITERS = 1000
WRITES = 6000  # that the simulated time is long enough for

_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(us|ms|s|m|min|h)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

MEANINGS: dict[Strategy, str] = {
    "optimistic": "retried with jitter, never in turn or under a lock (lock_after=None)",
    "escalated": "mutate as it is: after a conflict in turn, after two under the row's lock",
    "owned": "apply: each writer owns fields of its own",
    "queued": "a reconciler writes; asking for a run is the write",
}


def duration(text: str) -> float:
    """Read "50ms", "2s" or "1min" and return seconds."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: write 50ms, 2s or 1min.")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than an hour: the simulation is about short windows.")
    return seconds


def rate(text: str) -> float:
    """Read "2/s" or "30/min" and return how many a second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*/\s*(s|min|h)", text.strip())
    if not found or not float(found[1]) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate above 0: write 2/s, 30/min or 5/h.")
    return float(found[1]) / _UNITS[found[2]]


def _whole(least: int, most: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}.")
        return int(text)

    return whole


def add_arguments(parser: ArgumentParser) -> None:
    """Add what ``plan`` takes."""
    parser.add_argument("--writers", type=_whole(1, 10**8), required=True, dest="plan_writers", metavar="N")
    parser.add_argument("--keys", type=_whole(1, 10**8), required=True, metavar="N", help="rows they write, at random")
    parser.add_argument("--window", type=duration, required=True, dest="plan_window", help="from read to write: 50ms")
    parser.add_argument("--rate", type=rate, required=True, help="writes of each writer: 2/s, 30/min")
    parser.add_argument("--statement", type=duration, default=0.001, help="one statement, there and back (default 1ms)")
    parser.add_argument("--workers", type=_whole(1, 10_000), default=8, help="of the work queue, in all (default 8)")
    parser.add_argument("--seed", type=_whole(0, 10**9), default=1, help="of the simulation's chance (default 1)")
    parser.add_argument("--json", action="store_true", dest="plan_json", help="print JSON")


def run(options: dict[str, Any]) -> str:
    """Simulate and return what to print."""
    load = Load(
        writers=options["plan_writers"],
        keys=options["keys"],
        window=options["plan_window"],
        rate=options["rate"],
        statement=options["statement"],
        workers=options["workers"],
    )
    outcomes = simulate(load, seed=options["seed"])
    if options["plan_json"]:
        facts = {"load": asdict(load), "error": STATED_ERROR, "strategies": _as_dict(load, outcomes)}
        return json.dumps(facts, indent=2)
    return "\n".join(_lines(load, outcomes))


def simulate(load: Load, *, seed: int = 1) -> dict[Strategy, Outcome]:
    """Return the outcome of each strategy under ``load``, or a scaled-down one that is as hot."""
    scaled = scale_down(load)
    seconds = max(WRITES / (scaled.writers * scaled.rate), 20 * (scaled.window + 5 * scaled.statement))
    return {each: Simulation(scaled, each, seconds=seconds, seed=seed).run() for each in STRATEGIES}


def scale_down(load: Load) -> Load:
    """Return a load of fewer writers and keys, in the same proportion to each other and to the workers."""
    share = min(1.0, MOST_WRITERS / load.writers)
    keys = max(1, round(load.keys * share))
    share = keys / load.keys
    return replace(
        load,
        keys=keys,
        writers=max(1, round(load.writers * share)),
        workers=max(1, math.ceil(load.workers * share)),
    )


def _as_dict(load: Load, outcomes: dict[Strategy, Outcome]) -> dict[str, dict[str, float | None]]:
    return {name: {key: _finite(value) for key, value in _figures(load, each)} for name, each in outcomes.items()}


def _figures(load: Load, each: Outcome) -> list[tuple[str, float]]:
    offered = scale_down(load).writers * load.rate * each.seconds
    return [
        ("conflict_rate", each.conflict_rate),
        ("retries_per_success", each.retries_per_success),
        ("statements_per_success", each.statements_per_success),
        ("p50_seconds", each.latency(0.5)),
        ("p99_seconds", each.latency(0.99)),
        ("done", min(1.0, each.successes / offered)),
        ("given_up", each.given_up / max(1, each.given_up + each.successes)),
    ]


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _lines(load: Load, outcomes: dict[Strategy, Outcome]) -> list[str]:
    per_key = load.writers * load.rate / load.keys
    lines = [
        f"{load.writers:,} writers at {load.rate:g}/s on {load.keys:,} keys: {per_key:,.2f} writes/s for each key, "
        f"window {1000 * load.window:g} ms.",
        "",
        f"{'':<12}{'conflicts':>10}{'retries':>9}{'statements':>12}{'p50 ms':>9}{'p99 ms':>9}{'done':>7}"
        f"{'given up':>10}",
    ]
    for name, each in outcomes.items():
        figures = dict(_figures(load, each))
        lines.append(
            f"{name:<12}{_percent(figures['conflict_rate']):>10}{_number(figures['retries_per_success'], 2):>9}"
            f"{_number(figures['statements_per_success'], 2):>12}{_number(1000 * figures['p50_seconds'], 0):>9}"
            f"{_number(1000 * figures['p99_seconds'], 0):>9}{100 * figures['done']:>5.0f} %"
            f"{_percent(figures['given_up']):>10}"
        )
    lines += ["", *(f"{name}: {meaning}." for name, meaning in MEANINGS.items())]
    lines += ["Retries and statements are per success; done: the share of the wanted writes that got through.", ""]
    lines.append(_verdict(load, outcomes))
    lines.append(
        f"Simulated; conflict rates are within {STATED_ERROR:.1f} points of those measured on PostgreSQL "
        "(python -m benchmarks.plan)."
    )
    return lines


def _verdict(load: Load, outcomes: dict[Strategy, Outcome]) -> str:
    refused = outcomes["optimistic"].conflict_rate
    line = occ_settings.CONFLICT_WARN
    if refused <= line:
        return f"Below the line of {_percent(line)}: retries are the cheapest answer, as mutate does them."
    return (
        f"Above the line of {_percent(line)}: where writers change different fields let them own these (apply), where "
        "they change the same field let a reconciler write it."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else "-"

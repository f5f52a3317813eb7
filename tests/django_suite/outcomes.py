"""Compares the outcomes of a guarded and a control run, and holds the differences against the allowed ones."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Outcomes = dict[str, Any]  # what recording.py writes: "checks", and "tests" by id


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the guarded run failed and the control run did not.

    Attributes:
        differences: the ids of tests that failed, or did not run, in the guarded run alone.
        checks: messages of system checks that the guarded run alone had.
        unexplained: the differences that no entry of the list allows, and what else is wrong, one line each.
    """

    control: Counter[str]
    guarded: Counter[str]
    differences: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)


def compare(control: Outcomes, guarded: Outcomes, allowed: dict[str, str]) -> Comparison:
    """Compare two runs. ``allowed`` maps a test id to the row of the models table that it contradicts by design; a
    system check is named as it begins, ``app.Model: (occ.E005)``.
    """
    differences = sorted(
        name
        for name in control["tests"].keys() | guarded["tests"].keys()
        if _outcome(guarded, name) in ("failed", "not run") and _outcome(control, name) not in ("failed", "not run")
    )
    unexplained = [f"{name}: {_reason(guarded, name)}" for name in differences if name not in allowed]
    unexplained += [
        f"check: {message}"
        for message in guarded["checks"]
        if message not in control["checks"] and message.partition(")")[0] + ")" not in allowed
    ]
    unexplained += [
        f"{name}: it passes, take it off the list" for name in sorted(allowed) if _outcome(guarded, name) == "passed"
    ]
    return Comparison(
        control=_counts(control), guarded=_counts(guarded), differences=differences, unexplained=unexplained
    )


def parse_allowed(text: str, version: tuple[int, int]) -> dict[str, str]:
    """Return the tests that a list in TOML allows on a Django version: id -> the row that it cites.

    Raises:
        ValueError: an entry names no row or no reason.
    """
    allowed = {}
    for entry in tomllib.loads(text)["contradicts"]:
        if not entry.get("row") or not entry.get("because") or not entry.get("tests"):
            raise ValueError(f"An allowed difference needs a row, a because and tests: {entry}")
        since, until = entry.get("since", "0.0"), entry.get("until", "99.0")
        if _parsed(since) <= version <= _parsed(until):
            allowed.update(dict.fromkeys(entry["tests"], entry["row"]))
    return allowed


def _parsed(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def _outcome(run: Outcomes, name: str) -> str:
    return str(run["tests"].get(name, {"outcome": "not run"})["outcome"])


def _reason(run: Outcomes, name: str) -> str:
    return str(run["tests"].get(name, {}).get("reason", "did not run"))


def _counts(run: Outcomes) -> Counter[str]:
    return Counter(test["outcome"] for test in run["tests"].values())

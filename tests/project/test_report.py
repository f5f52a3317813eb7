"""The report says what was measured, on any terminal, and why a demo failed."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from project.deployments.demo import report
from project.deployments.demo.ledger import Audit
from project.deployments.demo.outcome import Act, Outcome
from project.deployments.demo.story import Line, Story
from project.deployments.demo.tally import Count

CLEAN = Audit(accepted=1250, lost=0, lost_by_writer={}, unrecorded=0, same_version=0)
STORY = Story(
    lines=(Line(seconds=0.0125, who="Rollout", what="reads version 42: 3 replicas."),),
    read=42,
    won=43,
    refused=(42, 43),
    written=44,
    nothing_lost=True,
)
OUTCOME = Outcome(
    unguarded=Act(
        counts={"HTTP client": Count(writes=400)},
        audit=Audit(accepted=400, lost=80, lost_by_writer={"HTTP client": 80}, unrecorded=0, same_version=0),
        failures=(),
    ),
    guarded=Act(
        counts={
            "HTTP client": Count(writes=1200, conflicts=50, retries=50, seconds=[0.02, 0.04, 1.5]),
            "Rollout": Count(writes=50, requeues=2),
        },
        audit=CLEAN,
        failures=(),
    ),
    story=STORY,
    unsettled=(),
    settled_after=1.25,
    worker_killed=True,
    database="sqlite",
    broker="filesystem",
)


def printed(outcome: Outcome, *, width: int) -> list[str]:
    file = io.StringIO()
    report.print_table(Console(file=file, width=width, highlight=False), outcome)
    return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]


def changed_act(act: Act, **facts: object) -> Act:
    return dataclasses.replace(act, audit=dataclasses.replace(act.audit, **facts))  # type: ignore[arg-type]


def test_the_table_has_every_figure_and_the_line_at_5_percent() -> None:
    lines = printed(OUTCOME, width=120)

    rows = [" ".join(line.split()) for line in lines]
    assert "HTTP client 1,200 50 ████·│····· 4.0% 50 0 40 1,500 80 0" in rows
    assert "Rollout 50 0 ·····│····· 0.0% 0 2 - - 0 0" in rows
    assert "all 1,250 50 ████·│····· 3.8% 50 2 40 1,500 80 0" in rows
    assert "Before: 80 of 400 accepted updates vanished without an error (20.0%)." in rows
    assert "After: 0 of 1,250. Conflict rate 3.8%, below the 5 % line: retrying is cheap here." in rows
    assert rows[-2].endswith("1.2 s after the last client's write, though their worker was killed and replaced.")


def test_a_narrow_terminal_shows_the_same_figures_without_the_bars() -> None:
    rows = [" ".join(line.split()) for line in printed(OUTCOME, width=80)]

    assert "HTTP client 1,200 50 4.0% 50 0 40 1,500 80 0" in rows


def test_the_story_tells_when_who_and_what() -> None:
    file = io.StringIO()

    report.print_story(Console(file=file, width=80), STORY)

    assert file.getvalue().split() == ["12.5", "ms", "Rollout", "reads", "version", "42:", "3", "replicas."]


def test_the_file_holds_the_same_figures(tmp_path: Path) -> None:
    report.write_json(tmp_path / "figures.json", OUTCOME)

    content = json.loads((tmp_path / "figures.json").read_text())
    assert content["guarded"]["all"] == {
        "writes": 1250,
        "conflicts": 50,
        "conflict_rate": 0.0385,
        "retries": 50,
        "requeues": 2,
        "gave_up": 0,
        "p50_seconds": 0.04,
        "p99_seconds": 1.5,
    }
    assert (content["unguarded"]["lost"], content["problems"]) == (80, [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"guarded": changed_act(OUTCOME.guarded, lost=1)},
            "1 accepted updates of the guarded fleet are lost.",
        ),
        (
            {"guarded": changed_act(OUTCOME.guarded, same_version=2)},
            "2 accepted writes share their version with another.",
        ),
        (
            {"guarded": changed_act(OUTCOME.guarded, unrecorded=3)},
            "3 changes in guarded rows are in nobody's journal.",
        ),
        ({"unsettled": ("cart", "search")}, "Not reconciled to their newest version: cart, search."),
        (
            {"story": dataclasses.replace(STORY, nothing_lost=False)},
            "Act three did not end with both controllers' changes in the row.",
        ),
        (
            {"unguarded": changed_act(OUTCOME.unguarded, lost=0)},
            "Act one lost nothing, so the race was not real: use more --writers or a longer --duration.",
        ),
        (
            {"guarded": dataclasses.replace(OUTCOME.guarded, failures=("http-1: answered 500",))},
            "1 writes failed for other reasons than a conflict, the first: http-1: answered 500",
        ),
    ],
)
def test_whatever_was_not_as_promised_fails_the_demo_with_a_sentence(change: dict[str, object], problem: str) -> None:
    outcome = dataclasses.replace(OUTCOME, **change)  # type: ignore[arg-type]

    assert outcome.problems() == [problem]


def test_a_demo_that_went_as_promised_has_no_problems() -> None:
    assert OUTCOME.problems() == []

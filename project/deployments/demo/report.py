"""The table that a person reads in the end, the story, and the same figures as JSON. Every figure was measured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from project.deployments.demo.outcome import Act, Outcome
from project.deployments.demo.story import Story
from project.deployments.demo.tally import LINE, Count, total
from project.deployments.demo.ways import Way

WIDE = 118  # columns that the bars need
CELLS = 10  # the bar of a conflict rate reaches to 10 %, the line is in its middle


def print_story(console: Console, story: Story) -> None:
    """Print who read what, who won, who was refused, who read again and wrote."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for line in story.lines:
        what = Text(line.what, style="yellow" if "Refused" in line.what else "")
        table.add_row(f"  {line.seconds * 1000:.1f} ms", line.who, what)
    console.print(table)


def print_ways(console: Console, ways: Sequence[Way]) -> None:
    """Print what each way to write one row cost, side by side."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Written", no_wrap=True)
    for heading in ("writes", "conflicts", "lost", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for way in ways:
        lost = _emphasis(way.lost, "bold red", "bold green")
        table.add_row(way.name, f"{way.writes:,}", f"{way.conflicts:,}", lost, f"{way.seconds:.1f}")
    console.print(table)


def print_table(console: Console, outcome: Outcome) -> None:
    """Print both acts by kind of writer, and what it means."""
    bars = console.width >= WIDE
    table = _empty_table(bars=bars)
    before, after = outcome.unguarded, outcome.guarded
    for kind, count in sorted(after.counts.items(), key=lambda item: item[0].lower()):
        table.add_row(kind, *_cells(count, bars=bars), _lost(before, kind), _lost(after, kind))
    table.add_section()
    everything = total(after.counts.values())
    lost = (_emphasis(before.audit.lost, "bold red"), _emphasis(after.audit.lost, "bold red", "bold green"))
    table.add_row(Text("all", style="bold"), *_cells(everything, bars=bars), *lost)
    console.print()
    console.print(table)
    for line in _reading(outcome, everything):
        console.print(line, soft_wrap=True)


def _empty_table(*, bars: bool) -> Table:
    title = "What was written, refused and lost"
    if bars:
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        headings = ("writes", "conflicts", "rate, with the 5 % line", "retries", "requeues", "p50", "p99")
    else:
        table = Table(title=title, title_justify="left", box=None, padding=(0, 0, 0, 1), pad_edge=False)
        headings = ("writes", "con-\nflicts", "rate", "re-\ntries", "re-\nqueues", "p50", "p99")
    table.add_column("Writer", no_wrap=True)
    for heading in (*headings, "lost\nbefore", "lost\nafter"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _reading(outcome: Outcome, everything: Count) -> list[str]:
    before, after = outcome.unguarded.audit, outcome.guarded.audit
    line = f"{LINE:.0%}".replace("%", " %")
    if everything.conflict_rate > LINE:
        advice = f"above the {line} line: these rows are hot, by intent. Own fields, or one queue, would cure it."
    else:
        advice = f"below the {line} line: retrying is cheap here."
    share = before.lost / before.accepted if before.accepted else 0.0
    reading = [
        f"Before: {before.lost:,} of {before.accepted:,} accepted updates vanished without an error ({share:.1%}).",
        f"After:  {after.lost:,} of {after.accepted:,}. Conflict rate {everything.conflict_rate:.1%}, {advice}",
        f"Journal and rows {'agree' if after.clean else 'DISAGREE'}: each accepted change is one version of its row.",
    ]
    if not outcome.unsettled:
        killed = ", though their worker was killed and replaced" if outcome.worker_killed else ""
        reading.append(
            f"The reconcilers had every deployment at its newest version {outcome.settled_after:.1f} s after the last "
            f"client's write{killed}."
        )
    if everything.gave_up:
        reading.append(
            f"Given up by their writers after too many refusals, and not counted as written: {everything.gave_up}."
        )
    reading.append(
        "Rate: conflicts / (writes + conflicts). p50, p99: milliseconds from the first read to acceptance, all waits "
        "included; of reconcilers, their runs."
    )
    return reading


def _cells(count: Count, *, bars: bool) -> list[str | Text]:
    return [
        f"{count.writes:,}",
        f"{count.conflicts:,}",
        _rate(count.conflict_rate, bar=bars),
        f"{count.retries:,}",
        f"{count.requeues:,}",
        _milliseconds(count.percentile(0.5)),
        _milliseconds(count.percentile(0.99)),
    ]


def _rate(rate: float, *, bar: bool) -> Text:
    """Return the figure, and before it a bar with the line in its middle."""
    style = "yellow" if rate > LINE else ""
    if not bar:
        return Text(f"{rate:.1%}", style=style)
    filled = min(CELLS, round(rate * 100))
    cells = ["█" if cell < filled else "·" for cell in range(CELLS)]
    half = CELLS // 2
    return Text(f"{''.join(cells[:half])}│{''.join(cells[half:])} {rate:6.1%}", style=style)


def _lost(act: Act, kind: str) -> Text:
    return _emphasis(act.audit.lost_by_writer.get(kind, 0), "red")


def _emphasis(number: int, style: str, otherwise: str = "") -> Text:
    return Text(f"{number:,}", style=style if number else otherwise)


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.0f}"


def write_json(path: Path, outcome: Outcome) -> None:
    """Write every figure of the report to a file."""
    content = {
        "database": outcome.database,
        "broker": outcome.broker,
        "worker_killed": outcome.worker_killed,
        "unguarded": _act(outcome.unguarded),
        "guarded": _act(outcome.guarded),
        "story": asdict(outcome.story),
        "ways": [asdict(way) for way in outcome.ways],
        "unsettled": outcome.unsettled,
        "settled_after_seconds": round(outcome.settled_after, 3),
        "problems": outcome.problems(),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def _act(act: Act) -> Mapping[str, Any]:
    return {
        "accepted": act.audit.accepted,
        "lost": act.audit.lost,
        "lost_by_writer": act.audit.lost_by_writer,
        "unrecorded": act.audit.unrecorded,
        "same_version": act.audit.same_version,
        "failures": act.failures,
        "writers": {kind: _count(count) for kind, count in sorted(act.counts.items())},
        "all": _count(total(act.counts.values())),
    }


def _count(count: Count) -> Mapping[str, Any]:
    return {
        "writes": count.writes,
        "conflicts": count.conflicts,
        "conflict_rate": round(count.conflict_rate, 4),
        "retries": count.retries,
        "requeues": count.requeues,
        "gave_up": count.gave_up,
        "p50_seconds": count.percentile(0.5),
        "p99_seconds": count.percentile(0.99),
    }

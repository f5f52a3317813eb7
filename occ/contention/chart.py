"""The chart of conflict rates as numbers for an SVG: no script, no library, every colour left to the style sheet."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _

from occ.contention.report import ModelReport, Slot, Window

WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 180, 14, 34  # around the plot; labels stand at the right
MOST_LINES = 5
LABEL_HEIGHT = 17
TIME_TICKS = 6


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark on an axis: where, in the units of the picture, and its text."""

    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One model: its parts between gaps as SVG points, lone points, and where its name stands.

    Attributes:
        style: a number from 1 to ``MOST_LINES``, for colour and dashes.
    """

    model: str
    style: int
    parts: list[str]
    dots: list[tuple[str, str]]
    label_at: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Everything that the template draws; coordinates are texts, so that no locale turns their points to commas."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    plot_width: int
    label_left: int
    line_at: str
    line_text: str
    above_height: str
    rates: list[Tick]
    times: list[Tick]
    lines: list[Line]
    description: str


def draw(reports: Sequence[ModelReport], window: Window, line: float) -> Chart | None:
    """Return the chart of the most contended models that have anything to show, None where there is none."""
    shown = [each for each in reports if any(slot.rate is not None for slot in each.slots)][:MOST_LINES]
    if not shown:
        return None
    highest = max(slot.rate or 0.0 for each in shown for slot in each.slots)
    top_rate, step = _scale(max(highest * 1.05, line * 1.6, 0.01))
    bottom = HEIGHT - BOTTOM

    def y(rate: float) -> float:
        return bottom - (bottom - TOP) * rate / top_rate

    lines = _lines(shown, y)
    return Chart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=bottom,
        plot_width=WIDTH - RIGHT - LEFT,
        label_left=WIDTH - RIGHT + 10,
        line_at=f"{y(line):.1f}",
        line_text=_("%(percent)s line") % {"percent": percent(line)},
        above_height=f"{max(0.0, y(line) - TOP):.1f}",
        rates=[
            Tick(at=f"{y(n * step):.1f}", text=percent(n * step, digits=0 if step >= 0.01 else 1))
            for n in range(round(top_rate / step) + 1)
        ],
        times=list(_times(shown[0].slots, window)),
        lines=lines,
        description=", ".join(f"{each.model}: {percent(each.rate)}" for each in shown),
    )


def percent(share: float, *, digits: int | None = None) -> str:
    """Write a share as percents in the active language, with one digit unless it is a whole number."""
    value = 100 * share
    if digits is None:
        digits = 0 if math.isclose(value, round(value), abs_tol=1e-9) and value else 1
    return number_format(round(value, digits), digits) + "\u00a0%"  # rounded here: number_format cuts


def clock_time(seconds: int, window: Window) -> str:
    """Write a moment as the hour, with the day of the week where the window is longer than a day."""
    moment = timezone.localtime(dt.datetime.fromtimestamp(seconds, dt.UTC))
    return date_format(moment, "H:i" if window.seconds <= 24 * 3600 else "D H:i")


def _scale(highest: float) -> tuple[float, float]:
    """Return the end of the axis and the step of its marks, both round numbers."""
    for step in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        if highest / step <= 6:
            return math.ceil(highest / step) * step, step
    return 1.0, 0.2


def _x(position: int, slots: Sequence[Slot]) -> float:
    return LEFT + (WIDTH - RIGHT - LEFT) * position / max(1, len(slots) - 1)


def _lines(shown: Sequence[ModelReport], y: Callable[[float], float]) -> list[Line]:
    wanted: list[float] = []
    drawn: list[tuple[list[str], list[tuple[str, str]]]] = []
    for each in shown:
        parts: list[str] = []
        dots: list[tuple[str, str]] = []
        last = 0.0
        for known, run in groupby(enumerate(each.slots), key=lambda item: item[1].rate is not None):
            if not known:
                continue
            points = [(f"{_x(n, each.slots):.1f}", f"{y(slot.rate or 0.0):.1f}") for n, slot in run]
            last = float(points[-1][1])
            if len(points) == 1:
                dots += points
            else:
                parts.append(" ".join(",".join(point) for point in points))
        wanted.append(last)
        drawn.append((parts, dots))
    return [
        Line(model=each.model, style=n + 1, parts=parts, dots=dots, label_at=f"{at:.1f}")
        for n, (each, (parts, dots), at) in enumerate(zip(shown, drawn, _apart(wanted), strict=True))
    ]


def _apart(wanted: Sequence[float]) -> list[float]:
    """Move labels apart until none covers another, keeping their order and staying in the picture."""
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    placed = dict.fromkeys(order, 0.0)
    least = float(TOP)
    for n in order:
        placed[n] = least = max(wanted[n], least)
        least += LABEL_HEIGHT
    most = float(HEIGHT - BOTTOM)
    for n in reversed(order):
        placed[n] = most = min(placed[n], most)
        most -= LABEL_HEIGHT
    return [placed[n] + 4 for n in range(len(wanted))]


def _times(slots: Sequence[Slot], window: Window) -> Iterator[Tick]:
    every = max(1, len(slots) // TIME_TICKS)
    for position in range(0, len(slots), every):
        yield Tick(at=f"{_x(position, slots):.1f}", text=clock_time(slots[position].start, window))

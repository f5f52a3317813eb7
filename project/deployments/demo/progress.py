"""What a person sees while it runs: a live display on a terminal, plain lines elsewhere."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from project.deployments.demo.tally import Tally

SECONDS_BETWEEN_LINES = 2.0
PLAIN_WIDTH = 120


def make_console() -> Console:
    """Return the console to print on; where there is no terminal its lines are long enough for the table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


class ActDisplay:
    """The progress of one act; use it as a context manager and call ``update`` often."""

    def __init__(self, console: Console, title: str, *, seconds: float) -> None:
        self._console = console
        self._title = title
        self._seconds = seconds
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._began = self._spoken = time.monotonic()

    def __enter__(self) -> "ActDisplay":
        self._console.print(self._title, style="bold")
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, tally: Tally, note: str = "") -> None:
        """Show what has been counted so far."""
        now = time.monotonic()
        elapsed = now - self._began
        if self._live is not None:
            self._live.update(self._picture(tally, elapsed, note))
        elif now - self._spoken >= SECONDS_BETWEEN_LINES:
            self._spoken = now
            self._console.print(f"  {elapsed:4.0f} s  {_summary(tally)}{'  ' + note if note else ''}")

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(f"  {line}")

    def _picture(self, tally: Tally, elapsed: float, note: str) -> Group:
        bar = Table.grid(padding=(0, 1))
        shown = min(elapsed, self._seconds)
        bar.add_row("  ", ProgressBar(total=self._seconds, completed=shown, width=30), f"{elapsed:.1f} s", note)
        counts = Table.grid(padding=(0, 2))
        for kind, count in sorted(tally.counts.items()):
            counts.add_row(
                "   ", kind, f"[green]{count.writes:,}[/] written", f"[yellow]{count.conflicts:,}[/] refused"
            )
        return Group(bar, counts)


def _summary(tally: Tally) -> str:
    total = tally.total
    return f"{total.writes:,} written, {total.conflicts:,} refused"

"""A pytest plugin: say at the end, in a person's words, what did not run here and how to get it."""

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Spell out what UTF-8 cannot carry in captured text: xdist's workers die of it as they send their report."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reasons[_reason(report)] += 1
    if not reasons:
        return
    terminalreporter.section("Not run here")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} test{'s' if count > 1 else ''}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return text.removeprefix("Skipped: ")

"""A test runner that writes the outcome of every test to the file named by DJANGO_SUITE_OUTCOMES."""

from __future__ import annotations

import json
import os
import unittest
from pathlib import Path
from typing import Any

from django.core import checks
from django.db.models import signals as model_signals
from django.dispatch import Signal
from django.test.runner import DiscoverRunner

SIGNALS = [signal for signal in vars(model_signals).values() if isinstance(signal, Signal)]


class RecordingResult(unittest.TextTestResult):
    """Remembers why each test failed; the test id of a class or module that could not be set up is its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes: dict[str, dict[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.receivers = [list(signal.receivers) for signal in SIGNALS]
        self.outcomes[test.id()] = {"outcome": "passed"}

    def stopTest(self, test: unittest.TestCase) -> None:
        # A test that fails half-way leaves its receivers connected, and others would fail with it.
        for signal, receivers in zip(SIGNALS, self.receivers, strict=True):
            if signal.receivers != receivers:
                signal.receivers = receivers
                signal.sender_receivers_cache.clear()
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._failed(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._failed(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcomes[test.id()] = {"outcome": "skipped"}

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.outcomes[test.id()] = {"outcome": "failed", "reason": "unexpected success", "traceback": ""}

    def _failed(self, test: unittest.TestCase, err: Any) -> None:
        before = self.outcomes.get(test.id(), {}).get("traceback", "")
        traceback = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]
        reason = f"{type(err[1]).__name__}: {err[1]}".partition("\n")[0][:300]
        self.outcomes[test.id()] = {"outcome": "failed", "reason": reason, "traceback": before + traceback}


class RecordingRunner(DiscoverRunner):
    """Runs as Django does, reports system checks instead of stopping at them, and writes the outcomes."""

    def get_resultclass(self) -> type[unittest.TextTestResult]:
        return RecordingResult

    def run_checks(self, databases: Any) -> None:
        found = checks.run_checks(databases=databases)
        self.checks = sorted(str(message) for message in found if not message.is_silenced() and message.is_serious())

    def suite_result(self, suite: Any, result: Any, **kwargs: Any) -> int:
        outcomes = {"checks": self.checks, "tests": result.outcomes}
        Path(os.environ["DJANGO_SUITE_OUTCOMES"]).write_text(json.dumps(outcomes, indent=1))
        return super().suite_result(suite, result, **kwargs)

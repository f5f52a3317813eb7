"""Failpoints: named places in a turn at which a process pauses, fails or dies because a test said so.

Production code has no hooks. ``install`` wraps functions of the reconcilers package, in a worker because this module is
an app of ``tests.kit.worker_settings``, in the test process because the ``failpoints`` fixture does it. Which points
are armed stands in a folder (OCC_FAILPOINTS), so that it works across processes: an armed point is a file, and
whoever takes that file by renaming it acts, once.
"""

import functools
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import AppConfig

from .waiting import eventually

FOLDER = "OCC_FAILPOINTS"

# point, module, function, whether the point is after it. A claim of one key and one of a batch are the same point.
POINTS: list[tuple[str, str, str, bool]] = [
    ("before_claim", "reconcilers.workqueue.steps", "claim", False),
    ("before_claim", "reconcilers.workqueue.steps", "claim_many", False),
    ("after_claim", "reconcilers.workqueue.steps", "claim", True),
    ("after_claim", "reconcilers.workqueue.steps", "claim_many", True),
    ("before_read", "reconcilers.controller", "_read_and_reconcile", False),
    ("before_write", "reconcilers.controller", "save_changes", False),
    ("after_write", "reconcilers.controller", "save_changes", True),
    ("before_finish", "reconcilers.workqueue.steps", "finish", False),
    ("after_finish", "reconcilers.workqueue.steps", "finish", True),
]


class FailpointReached(RuntimeError):
    """Raised at a point armed with "raise"."""


class Armed:
    """One arming of one point, as the test holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def reached(self) -> bool:
        return self._path.with_suffix(".reached").exists()

    def wait_until_reached(self, *, timeout: float = 30.0) -> int:
        """Return the pid of the process that is at the point."""
        eventually(lambda: self.reached, timeout=timeout, what=f"{self._path.name} reached")
        return int(self._path.with_suffix(".reached").read_text())

    def release(self) -> None:
        """Let a paused process go on."""
        self._path.with_suffix(".go").touch()


class Failpoints:
    """Arms points for every process that has this folder in its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def arm(self, point: str, action: str) -> Armed:
        """Make the next process that reaches ``point`` "pause" (until released), "raise" or "die" (kill -9 of itself).

        Arm it several times for several passes.
        """
        known = {name for name, *_ in POINTS}
        assert point in known, f"{point!r} is none of {sorted(known)}"
        assert action in {"pause", "raise", "die"}, action
        path = self.folder / f"{point}-{time.monotonic_ns():020}-{uuid.uuid4().hex[:6]}.armed"
        aside = path.with_suffix(".new")
        aside.write_text(action)
        aside.rename(path)
        return Armed(path)

    def release_all(self) -> None:
        for armed in self.folder.glob("*.armed"):
            armed.unlink(missing_ok=True)
        for taken in self.folder.glob("*.taken"):
            taken.with_suffix(".go").touch()


def reach(point: str) -> None:
    """Act if ``point`` is armed; called at every pass."""
    folder = Path(os.environ[FOLDER])
    for armed in sorted(folder.glob(f"{point}-*.armed")):
        taken = armed.with_suffix(".taken")
        try:
            armed.rename(taken)
        except FileNotFoundError:
            continue  # another process was faster
        _act(point, taken)
        return


def _act(point: str, taken: Path) -> None:
    action = taken.read_text()
    aside = taken.with_suffix(".pid")
    aside.write_text(str(os.getpid()))
    aside.rename(taken.with_suffix(".reached"))
    if action == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "raise":
        raise FailpointReached(point)
    while not taken.with_suffix(".go").exists():
        time.sleep(0.01)


def install() -> Callable[[], None]:
    """Wrap the functions of POINTS wherever the package holds them; return what undoes it."""
    undo: list[tuple[Any, str, Any]] = []
    wrapped: dict[tuple[str, str], tuple[Any, list[str], list[str]]] = {}
    for point, module_name, name, after in POINTS:
        original = getattr(import_module(module_name), name)
        _, before_points, after_points = wrapped.setdefault((module_name, name), (original, [], []))
        (after_points if after else before_points).append(point)
    for original, before_points, after_points in wrapped.values():
        wrapper = _wrap(original, before_points, after_points)
        for module in [module for key, module in sys.modules.items() if key.partition(".")[0] == "reconcilers"]:
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, wrapper)
                    undo.append((module, attribute, original))

    def uninstall() -> None:
        for module, attribute, original in undo:
            setattr(module, attribute, original)

    return uninstall


def _wrap(function: Callable[..., Any], before: list[str], after: list[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for point in before:
            reach(point)
        result = function(*args, **kwargs)
        for point in after:
            reach(point)
        return result

    return call


class FailpointsConfig(AppConfig):
    """The app that installs them in a worker process whose test asked for the ``failpoints`` fixture."""

    name = "tests.kit.failpoints"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        if FOLDER in os.environ:
            install()


@pytest.fixture
def failpoints(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Failpoints]:
    """Arm points of this process and of the processes started after this fixture: name it before them."""
    points = Failpoints(tmp_path_factory.mktemp("failpoints"))
    monkeypatch.setenv(FOLDER, str(points.folder))
    uninstall = install()
    yield points
    points.release_all()
    uninstall()

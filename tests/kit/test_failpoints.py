"""The failpoints' own mechanism, on a module made for it."""

import sys
import threading
from types import ModuleType

import pytest

from . import failpoints
from .failpoints import FailpointReached, Failpoints


@pytest.fixture
def points(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Failpoints around ``step`` of a module ``reconcilers.example``, which another module holds by name, too."""
    module, user = ModuleType("reconcilers.example"), ModuleType("reconcilers.user")
    module.step = user.step = lambda value: value + 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, user.__name__, user)
    places = [("before_step", module.__name__, "step", False), ("after_step", module.__name__, "step", True)]
    monkeypatch.setattr(failpoints, "POINTS", places)
    made = Failpoints(tmp_path_factory.mktemp("failpoints"))
    monkeypatch.setenv(failpoints.FOLDER, str(made.folder))
    uninstall = failpoints.install()
    yield made
    uninstall()


def step(value: int) -> int:
    result: int = sys.modules["reconcilers.user"].step(value)
    return result


def test_an_unarmed_point_does_nothing(points: Failpoints) -> None:
    assert step(1) == 2


def test_an_armed_point_acts_once(points: Failpoints) -> None:
    armed = points.arm("before_step", "raise")

    with pytest.raises(FailpointReached):
        step(1)

    assert (step(1), armed.reached) == (2, True)


def test_a_paused_pass_goes_on_when_released(points: Failpoints) -> None:
    armed = points.arm("after_step", "pause")
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(step(1)))
    thread.start()
    armed.wait_until_reached()
    during = list(results)

    armed.release()
    thread.join(10)

    assert (during, results) == ([], [2])


def test_a_misspelt_point_is_told(points: Failpoints) -> None:
    with pytest.raises(AssertionError, match="'stepp' is none of"):
        points.arm("stepp", "pause")

"""Time and chance under a test's control."""

import datetime as dt
import random

import pytest


class FakeClock:
    """A clock that only the test moves: call it for seconds, ``now()`` for an aware datetime; ``sleep`` advances it."""

    def __init__(self, start: dt.datetime = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)) -> None:
        self._start = start
        self._seconds = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self._seconds

    def now(self) -> dt.datetime:
        return self._start + dt.timedelta(seconds=self._seconds)

    def advance(self, duration: float | dt.timedelta) -> None:
        self._seconds += duration.total_seconds() if isinstance(duration, dt.timedelta) else duration

    def sleep(self, seconds: float) -> None:
        """Stand in for ``time.sleep``: note the duration and let it pass."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Stand in for ``asyncio.sleep``."""
        self.sleep(seconds)


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def seeded_random(request: pytest.FixtureRequest) -> random.Random:
    """A random source of this test: its seed is the run's ``-p randomly`` seed, which the report's head prints."""
    seed = request.config.getoption("randomly_seed", default=0)
    return random.Random(f"{seed}:{request.node.nodeid}")  # noqa: S311 - not for secrets

"""Time and chance of the kit."""

import datetime as dt
import random

from .chance import FakeClock


def test_the_fake_clock_moves_only_when_told(fake_clock: FakeClock) -> None:
    start = fake_clock.now()

    fake_clock.advance(1.5)
    fake_clock.advance(dt.timedelta(seconds=2))
    fake_clock.sleep(3)

    assert (fake_clock(), fake_clock.now() - start, fake_clock.slept) == (6.5, dt.timedelta(seconds=6.5), [3])


def test_the_random_source_of_a_test_repeats(seeded_random: random.Random, request) -> None:  # type: ignore[no-untyped-def]
    seed = request.config.getoption("randomly_seed", default=0)

    again = random.Random(f"{seed}:{request.node.nodeid}")

    assert [seeded_random.random() for _ in range(5)] == [again.random() for _ in range(5)]

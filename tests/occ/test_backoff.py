"""Backoff: what it waits, how often, and what it refuses to be made of."""

import dataclasses
import random
import statistics

import pytest

from occ.backoff import KUBERNETES_BACKOFF, KUBERNETES_RETRY, Backoff


def test_without_jitter_delays_grow_by_the_factor_up_to_the_cap():
    backoff = Backoff(base=1, factor=2, cap=5, jitter="none", attempts=6)

    assert list(backoff.delays()) == [1, 2, 4, 5, 5]


def test_there_is_no_delay_after_the_last_attempt():
    assert list(Backoff(attempts=1).delays()) == []


def test_without_a_bound_delays_go_on_and_never_overflow():
    backoff = Backoff(base=1, factor=2, cap=300, jitter="none", attempts=None)

    assert backoff.delay(10**6) == 300


@pytest.mark.parametrize(
    ("jitter", "low", "high"), [("full", 0.0, 4.0), ("equal", 2.0, 4.0), (0.5, 4.0, 6.0), ("none", 4.0, 4.0)]
)
def test_jitter_spreads_over_its_whole_range(jitter, low, high):
    backoff = Backoff(base=1, factor=2, cap=100, jitter=jitter, random=random.Random(7))

    drawn = [backoff.delay(2) for _ in range(2000)]

    assert low <= min(drawn) <= max(drawn) <= high
    assert statistics.mean(drawn) == pytest.approx((low + high) / 2, rel=0.05)


def test_decorrelated_jitter_grows_from_the_delay_before_up_to_the_cap():
    backoff = Backoff(base=1, cap=20, jitter="decorrelated", attempts=200, random=random.Random(7))

    delays = list(backoff.delays())

    assert all(1 <= delay <= 20 for delay in delays)
    assert all(later <= max(1, before * 3) for before, later in zip(delays, delays[1:], strict=False))
    assert max(delays) == 20


def test_the_same_random_source_gives_the_same_delays():
    draws = [list(Backoff(attempts=9, random=random.Random(3)).delays()) for _ in range(2)]

    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    ("preset", "delays"), [(KUBERNETES_RETRY, [0.01, 0.01, 0.01, 0.01]), (KUBERNETES_BACKOFF, [0.01, 0.05, 0.25])]
)
def test_the_kubernetes_presets_are_those_of_client_go(preset, delays):
    exact = dataclasses.replace(preset, jitter="none")

    assert list(exact.delays()) == pytest.approx(delays)
    assert all(base <= drawn <= base * 1.1 for base, drawn in zip(delays, preset.delays(), strict=True))


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("base", -1),
        ("base", "1"),
        ("base", float("nan")),
        ("cap", float("inf")),
        ("factor", 0.5),
        ("attempts", 0),
        ("attempts", 1.5),
        ("attempts", True),
        ("jitter", "some"),
        ("jitter", -0.1),
    ],
)
def test_a_wrong_argument_is_named(argument, wrong):
    with pytest.raises(ValueError, match=f"^{argument}"):
        Backoff(**{argument: wrong})


def test_it_is_a_frozen_value():
    assert Backoff(base=1) == Backoff(base=1)
    assert hash(Backoff(base=1)) == hash(Backoff(base=1))
    with pytest.raises(AttributeError):
        Backoff().base = 2

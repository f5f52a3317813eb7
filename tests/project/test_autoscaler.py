"""The autoscaler's policy: as many replicas as the load needs, and no restlessness."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.deployments.autoscaler import TOLERANCE, desired_replicas

COUNTS = st.integers(min_value=1, max_value=1000)


def scaled(*, replicas: int, load: int, target: int = 100, minimum: int = 1, maximum: int = 1000) -> int:
    return desired_replicas(replicas=replicas, load=load, target=target, minimum=minimum, maximum=maximum)


@pytest.mark.parametrize(
    ("replicas", "load", "expected"),
    [
        (3, 500, 5),
        (3, 501, 6),
        (5, 200, 2),
        (2, 0, 1),
    ],
)
def test_each_replica_gets_its_target_share_of_the_load(replicas: int, load: int, expected: int) -> None:
    assert scaled(replicas=replicas, load=load) == expected


@pytest.mark.parametrize("load", [270, 299, 301, 330])
def test_a_deviation_within_the_tolerance_changes_nothing(load: int) -> None:
    assert scaled(replicas=3, load=load) == 3


@pytest.mark.parametrize(("load", "expected"), [(269, 3), (331, 4)])
def test_a_deviation_beyond_the_tolerance_is_acted_upon(load: int, expected: int) -> None:
    assert scaled(replicas=3, load=load) == expected


def test_the_limits_hold_whatever_the_load() -> None:
    assert scaled(replicas=5, load=100_000, minimum=2, maximum=8) == 8
    assert scaled(replicas=5, load=0, minimum=2, maximum=8) == 2


def test_limits_that_were_changed_hold_within_the_tolerance_too() -> None:
    assert scaled(replicas=5, load=500, minimum=6, maximum=8) == 6


def test_a_service_that_was_switched_off_stays_off() -> None:
    assert scaled(replicas=0, load=5000, minimum=2) == 0


@given(replicas=COUNTS, load=st.integers(0, 100_000), target=st.integers(1, 1000), minimum=COUNTS, more=COUNTS)
def test_a_second_look_at_the_same_load_changes_nothing(
    replicas: int, load: int, target: int, minimum: int, more: int
) -> None:
    limits = {"target": target, "minimum": minimum, "maximum": minimum + more}
    once = desired_replicas(replicas=replicas, load=load, **limits)

    twice = desired_replicas(replicas=once, load=load, **limits)

    assert twice == once


@given(replicas=COUNTS, load=st.integers(1, 100_000), target=st.integers(1, 1000))
def test_without_limits_in_the_way_nobody_gets_more_than_target_and_tolerance(
    replicas: int, load: int, target: int
) -> None:
    wanted = scaled(replicas=replicas, load=load, target=target, maximum=100_000)

    assert load <= wanted * target * (1 + TOLERANCE) + 1e-6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target": 0}, "target must be 1 or more requests per second, not 0."),
        ({"minimum": 0}, "minimum must be from 1 to maximum, not 0 with a maximum of 1000."),
        ({"minimum": 9, "maximum": 8}, "minimum must be from 1 to maximum, not 9 with a maximum of 8."),
    ],
)
def test_impossible_arguments_are_named(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        scaled(replicas=3, load=100, **wrong)

    assert str(raised.value) == message

"""The rollout's policy: a new template reaches every replica, a few at a time."""

from hypothesis import given
from hypothesis import strategies as st

from project.deployments.rollout import Progress, limits, next_step, template_hash

COUNTS = st.integers(min_value=0, max_value=60)


def steps(progress: Progress, *, replicas: int, template_hash: str = "new") -> list[Progress]:
    """Return the progress after each step until nothing changes any more."""
    walked = []
    while (following := next_step(progress, template_hash=template_hash, replicas=replicas)) != progress:
        walked.append(following)
        progress = following
        assert len(walked) < 1000, "the rollout never comes to rest"
    return walked


def progress(template_hash: str, updated: int, ready: int) -> Progress:
    return Progress(template_hash=template_hash, updated=updated, ready=ready)


def test_a_new_deployment_starts_all_its_replicas_at_once() -> None:
    assert steps(progress("", 0, 0), replicas=4) == [progress("new", 4, 4)]


def test_a_new_template_replaces_the_replicas_a_few_at_a_time() -> None:
    assert steps(progress("old", 8, 8), replicas=8) == [
        progress("new", 2, 6),
        progress("new", 6, 6),
        progress("new", 8, 8),
    ]


def test_a_single_replica_is_replaced_without_a_gap() -> None:
    assert steps(progress("old", 1, 1), replicas=1) == [progress("new", 1, 1)]


def test_a_template_that_changes_in_the_middle_starts_over_from_what_is_there() -> None:
    halfway = next_step(progress("old", 8, 8), template_hash="new", replicas=8)

    after = steps(halfway, replicas=8, template_hash="newest")

    assert after[0].template_hash == "newest"
    assert after[-1] == progress("newest", 8, 8)


def test_scaling_without_a_new_template_adds_and_ends_replicas() -> None:
    assert steps(progress("new", 2, 2), replicas=5)[-1] == progress("new", 5, 5)
    assert steps(progress("new", 5, 5), replicas=2) == [progress("new", 2, 2)]


def test_a_service_that_is_switched_off_ends_all_its_replicas() -> None:
    assert steps(progress("old", 3, 3), replicas=0)[-1] == progress("new", 0, 0)


def test_a_complete_rollout_stays_as_it_is() -> None:
    assert steps(progress("new", 3, 3), replicas=3) == []


@given(replicas=COUNTS, ready=COUNTS, updated=COUNTS, known=st.booleans())
def test_every_rollout_ends_with_all_replicas_new_and_ready(
    replicas: int, ready: int, updated: int, known: bool
) -> None:
    start = progress("new" if known else "old", min(updated, ready), ready)

    walked = steps(start, replicas=replicas)

    assert [start, *walked][-1] == progress("new", replicas, replicas)


@given(replicas=st.integers(1, 60), ready=COUNTS)
def test_at_every_step_enough_replicas_are_ready_and_not_too_many_run(replicas: int, ready: int) -> None:
    surge, unavailable = limits(replicas)
    start = progress("old", ready, ready)

    for step in steps(start, replicas=replicas):
        assert min(ready, replicas - unavailable) <= step.ready <= max(ready, replicas + surge)


@given(st.integers(0, 1000))
def test_the_limits_are_a_quarter_and_never_both_zero(replicas: int) -> None:
    surge, unavailable = limits(replicas)

    assert surge + unavailable > 0
    assert (surge - 1) * 4 < replicas or replicas == 0
    assert unavailable * 4 <= max(replicas, 4)


def test_the_hash_is_of_the_content_and_not_of_the_order_of_its_keys() -> None:
    one = template_hash("shop/cart:1", {"port": 80, "env": {"A": "1", "B": "2"}})
    same = template_hash("shop/cart:1", {"env": {"B": "2", "A": "1"}, "port": 80})
    other_image = template_hash("shop/cart:2", {"port": 80, "env": {"A": "1", "B": "2"}})
    other_value = template_hash("shop/cart:1", {"port": 80, "env": {"A": "1", "B": "3"}})

    assert one == same
    assert len({one, other_image, other_value}) == 3

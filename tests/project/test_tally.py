"""The figures of the report are what they say."""

from project.deployments.demo.events import Event, What
from project.deployments.demo.tally import Count, Tally


def event(what: What, kind: str = "HTTP client", **facts: object) -> Event:
    return Event(what=what, kind=kind, writer="one", fleet="guarded", pk=1, **facts)  # type: ignore[arg-type]


def test_what_writers_tell_is_counted_by_kind() -> None:
    tally = Tally()

    for told in (
        event(What.ACCEPTED, seconds=0.5, retries=2),
        event(What.CONFLICT),
        event(What.CONFLICT),
        event(What.GAVE_UP),
        event(What.RECONCILED, kind="Rollout", seconds=0.25, retries=1, requeued=True),
        event(What.FAILED, detail="ValueError: no"),
    ):
        tally.add(told)

    assert tally.counts == {
        "HTTP client": Count(writes=1, conflicts=2, retries=2, gave_up=1, seconds=[0.5]),
        "Rollout": Count(retries=1, requeues=1, seconds=[0.25]),
    }
    assert tally.failures == ["one: ValueError: no"]
    assert tally.total == Count(writes=1, conflicts=2, retries=3, requeues=1, gave_up=1, seconds=[0.5, 0.25])


def test_the_conflict_rate_is_of_all_attempted_writes() -> None:
    assert Count(writes=95, conflicts=5).conflict_rate == 0.05
    assert Count().conflict_rate == 0.0


def test_percentiles_are_values_that_occurred() -> None:
    count = Count(seconds=[5.0, 1.0, 2.0, 4.0, 3.0])

    assert (count.percentile(0.5), count.percentile(0.99), Count().percentile(0.5)) == (3.0, 5.0, None)

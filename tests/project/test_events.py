"""What processes tell each other arrives once, whole, and survives who told it."""

from pathlib import Path

from project.deployments.demo.events import Event, EventLog, EventReader, What

ACCEPTED = Event(
    what=What.ACCEPTED,
    kind="HTTP client",
    writer="http-1",
    fleet="guarded",
    pk=3,
    counter="http-1",
    version=17,
    seconds=0.25,
    retries=2,
)
CONFLICT = Event(what=What.CONFLICT, kind="HTTP client", writer="http-1", fleet="guarded", pk=3)


def test_events_arrive_as_they_were_told(tmp_path: Path) -> None:
    log = EventLog(tmp_path, "one")

    log.append(ACCEPTED)
    log.append(CONFLICT)

    assert list(EventReader(tmp_path).new()) == [ACCEPTED, CONFLICT]


def test_each_event_is_given_once_whichever_process_told_it(tmp_path: Path) -> None:
    reader = EventReader(tmp_path)
    first, second = EventLog(tmp_path, "first"), EventLog(tmp_path, "second")
    first.append(ACCEPTED)
    before = list(reader.new())
    first.append(CONFLICT)
    second.append(ACCEPTED)

    after = list(reader.new())

    assert (before, after, list(reader.new())) == ([ACCEPTED], [CONFLICT, ACCEPTED], [])


def test_a_line_that_is_not_finished_waits_for_its_end(tmp_path: Path) -> None:
    EventLog(tmp_path, "one").append(CONFLICT)
    path = tmp_path / "one.jsonl"
    line = path.read_bytes()
    path.write_bytes(line + line[:10])
    reader = EventReader(tmp_path)
    before = list(reader.new())

    path.write_bytes(line + line)

    assert (before, list(reader.new())) == ([CONFLICT], [CONFLICT])

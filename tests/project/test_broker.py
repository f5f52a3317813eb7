"""The embedded broker: several processes put and take, nothing is lost, nothing comes twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.processes import Processes

kombu = pytest.importorskip("kombu")

from project.servers import broker  # noqa: E402 - after the skip

PRODUCER = """
import sys
from tests.project.test_broker import connect
with connect(sys.argv[1]) as connection:
    queue = connection.SimpleQueue("work.items")
    for number in range(100):
        queue.put([sys.argv[2], number])
"""

CONSUMER = """
import json, sys
from queue import Empty
from tests.project.test_broker import connect
taken = []
with connect(sys.argv[1]) as connection:
    queue = connection.SimpleQueue("work.items")
    print("up")
    while True:
        try:
            message = queue.get(timeout=3)
        except Empty:
            break
        taken.append(message.payload)
        message.ack()
print("taken", json.dumps(taken))
"""


def connect(folder: str) -> "kombu.Connection":
    settings = broker(f"filesystem://{folder}", Path("unused"))
    return kombu.Connection(
        settings["url"], transport=settings["transport"], transport_options=settings["transport_options"]
    )


def take(queue: Any) -> Any:
    message = queue.get(timeout=5)
    message.ack()
    return message.payload


def test_several_processes_lose_no_message_and_take_none_twice(plain_processes: Processes, tmp_path: Path) -> None:
    consumers = [plain_processes.python("-c", CONSUMER, str(tmp_path)) for _ in range(3)]
    producers = [plain_processes.python("-c", PRODUCER, str(tmp_path), str(n)) for n in range(3)]

    statuses = [process.wait(timeout=90) for process in (*producers, *consumers)]
    taken = [item for consumer in consumers for item in json.loads(consumer.output.rpartition("taken ")[2])]

    assert statuses == [0] * 6
    assert sorted(taken) == [[str(producer), number] for producer in range(3) for number in range(100)]
    assert list((tmp_path / "messages").iterdir()) == []


def test_messages_come_in_the_order_in_which_they_were_put(tmp_path: Path) -> None:
    with connect(str(tmp_path)) as connection:
        queue = connection.SimpleQueue("q")
        for number in range(20):
            queue.put(number)

        taken = [take(queue) for _ in range(20)]

    assert taken == list(range(20))


def test_queues_do_not_see_each_others_messages(tmp_path: Path) -> None:
    with connect(str(tmp_path)) as connection:
        left, right = connection.SimpleQueue("left"), connection.SimpleQueue("left.right")
        left.put("for the left")
        right.put("for the right")

        taken = [take(right), take(left)]

        assert (taken, left.qsize(), right.qsize()) == (["for the right", "for the left"], 0, 0)


def test_a_file_that_another_consumer_takes_first_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(str(tmp_path)) as connection:
        queue = connection.SimpleQueue("q")
        queue.put("first")
        queue.put("second")
        listing = sorted(path.name for path in (tmp_path / "messages").iterdir())
        monkeypatch.setattr("project.broker.os.listdir", lambda folder: listing)
        (tmp_path / "messages" / listing[0]).unlink()

        taken = take(queue)

    assert taken == "second"


def test_a_purge_empties_one_queue(tmp_path: Path) -> None:
    with connect(str(tmp_path)) as connection:
        left, right = connection.SimpleQueue("left"), connection.SimpleQueue("right")
        left.put(1)
        left.put(2)
        right.put(3)

        purged = left.clear()

        assert (purged, left.qsize(), right.qsize()) == (2, 0, 1)


def test_a_second_folder_of_one_process_works_like_the_first(tmp_path: Path) -> None:
    taken = []
    for folder in ("first", "second"):
        with connect(str(tmp_path / folder)) as connection:
            queue = connection.SimpleQueue("q")
            queue.put(folder)
            taken.append(take(queue))

    assert taken == ["first", "second"]

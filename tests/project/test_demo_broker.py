"""A demo leaves no queue and no message on the broker."""

import uuid

import pytest

from project.celery import app
from project.deployments.demo.broker import own_queue, require_broker


@pytest.fixture
def queue(broker: str) -> str:
    """The name of a queue that nobody else sends to or has ever used."""
    return f"demo-{uuid.uuid4().hex}"


def messages_waiting(name: str) -> int:
    """Return how many messages a queue holds; it is declared if it is not there."""
    with app.connection_for_write() as connection:
        count: int = app.amqp.queues[name].bind(connection.default_channel).queue_declare().message_count
        return count


def test_messages_that_nobody_took_are_gone_with_the_queue(queue: str) -> None:
    require_broker()

    with own_queue(queue):
        app.send_task("reconcilers.sweep", queue=queue)
        before = messages_waiting(queue)

    assert (before, messages_waiting(queue)) == (1, 0)

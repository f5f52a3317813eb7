"""The broker of a demo: whether it answers, and that the run's own queue does not outlive the run."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from project.celery import app
from project.deployments.demo.preflight import DemoError

CONNECT_SECONDS = 5

logger = logging.getLogger(__name__)


def require_broker() -> None:
    """Raise ``DemoError`` unless Celery's broker answers."""
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS)
    except Exception as error:  # each transport raises its own
        raise DemoError(
            f"The broker of CELERY_BROKER_URL cannot be reached ({_without_credentials(error)}): start it, or correct "
            "or unset CELERY_BROKER_URL."
        ) from error


@contextmanager
def own_queue(name: str) -> Iterator[None]:
    """Remove the queue ``name`` of this run, and what is left in it, from the broker afterwards."""
    try:
        yield
    finally:
        try:
            with app.connection_for_write(connect_timeout=CONNECT_SECONDS) as broker:
                queue = app.amqp.queues[name].bind(broker.default_channel)
                queue.declare()  # some transports delete only what they know, and this connection knows nothing yet
                queue.delete()
                queue.exchange.delete()
        except Exception:
            logger.warning("Queue %s could not be removed from the broker.", name, exc_info=True)


def _without_credentials(error: Exception) -> str:
    message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return re.sub(r"(\w+://)[^/@\s]*@", r"\1", message)

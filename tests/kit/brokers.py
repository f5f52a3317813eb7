"""An empty broker for each test, and how the test process and its workers are pointed at it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from project import servers

# Read once: the fixtures change the variable for the tests.
KIND = urlsplit(os.environ.get("CELERY_BROKER_URL", "")).scheme or "filesystem"


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Make this process's Celery app, and processes started meanwhile, use the broker at ``url``."""
    from project.celery import app

    settings = servers.broker(url, Path("unused"))
    keys = ("broker_transport", "broker_transport_options")
    before = {key: app.conf[key] for key in keys}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELERY_BROKER_URL", url)  # Celery itself prefers it to its configuration
        app.conf.update(broker_transport=settings["transport"], broker_transport_options=settings["transport_options"])
        _forget_connections(app)
        try:
            yield
        finally:
            _forget_connections(app)
            app.conf.update(before)


def delete_queues(url: str, names: list[str]) -> None:
    """Remove queues and what is in them."""
    from kombu import Connection

    with Connection(url, connect_timeout=5) as connection:
        for name in names:
            connection.default_channel.queue_delete(name)


def _forget_connections(app: Any) -> None:
    from kombu import pools

    from reconcilers import tasks

    pools.reset()
    tasks._line._hang_up()  # the connection of the nudges; left open it is a ResourceWarning in somebody else's test
    # The app has its pools by reference, and no public way to let go of them without closing the app.
    app._pool = None
    app.amqp._producer_pool = None


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty broker of this test's own; this process's Celery app and the test's processes use it."""
    if KIND == "filesystem":
        url = f"filesystem://{tmp_path_factory.mktemp('broker')}"
    elif KIND == "redis":
        server = request.getfixturevalue("redis_server")
        server.wipe()
        url = server.url
    else:
        url = request.getfixturevalue("rabbitmq_server").url
        delete_queues(url, _queue_names())
    with pointed_at(url):
        yield url


def _queue_names() -> list[str]:
    from project.celery import app

    return sorted({app.conf.task_default_queue, *os.environ.get("OCC_TEST_QUEUES", "").split()})


@pytest.fixture(scope="session", autouse=True)
def _no_broker_of_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep nudges of tests that care for no broker out of the run directory of the checkout."""
    try:
        import celery  # noqa: F401 - only whether it is there
    except ModuleNotFoundError:
        yield
        return
    with pointed_at(f"filesystem://{tmp_path_factory.mktemp('unwatched-broker')}"):
        yield

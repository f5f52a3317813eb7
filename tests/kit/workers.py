"""Real worker processes on the test's own database and broker."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from django.db import connections

from .processes import ManagedProcess, Processes

StartsProcess = Callable[..., ManagedProcess]


def databases_environment(folder: Path) -> dict[str, str]:
    """Return what makes a process use this test's databases and nothing of the checkout's run directory.

    DATABASE_URL is inherited as it is; which database of the server (or which file) it is, is told apart.
    """
    names = {alias: str(connections[alias].settings_dict["NAME"]) for alias in connections}
    return {
        "DJANGO_SETTINGS_MODULE": "tests.kit.worker_settings",
        "OCC_TEST_DATABASES": json.dumps(names),
        "OCC_RUN_DIR": str(folder),
    }


@pytest.fixture
def processes(transactional_db: None, broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Start commands on the test's database and broker; whatever still runs at the test's end is killed."""
    folder = tmp_path_factory.mktemp("processes")
    started = Processes(folder, databases_environment(folder))
    yield started
    started.close()


@pytest.fixture
def celery_worker(processes: Processes) -> StartsProcess:
    """Call to start ``celery -A project worker``; returns once it consumes.

    ``concurrency``, ``pool`` ("prefork", "threads", "solo"), ``queues`` (comma-separated) and ``env`` may be given.
    Use ``.terminate()`` for a clean shutdown, ``.kill()`` for kill -9 of the whole worker.
    """
    numbers = count()

    def start(
        *, concurrency: int = 1, pool: str = "prefork", queues: str | None = None, env: dict[str, str] | None = None
    ) -> ManagedProcess:
        options = [f"--pool={pool}", f"--concurrency={concurrency}", "--loglevel=INFO"]
        options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        options.append(f"--hostname=worker{next(numbers)}@%h")  # RabbitMQ refuses a second one of the same name
        if queues is not None:
            options.append(f"--queues={queues}")
        worker = processes.python("-m", "celery", "-A", "project", "worker", *options, env=env)
        worker.wait_for_output(" ready.", timeout=60)
        return worker

    return start


@pytest.fixture
def celery_beat(processes: Processes) -> StartsProcess:
    """Call to start ``celery -A project beat``; returns once it is running."""

    def start(*, env: dict[str, str] | None = None) -> ManagedProcess:
        number = len(list(processes.folder.glob("beat-*")))
        state = processes.folder / f"beat-{number}"
        state.mkdir()
        command = ("-m", "celery", "-A", "project", "beat", "--loglevel=INFO")
        beat = processes.python(*command, f"--schedule={state / 'schedule'}", "--pidfile=", env=env)
        beat.wait_for_output("beat: Starting...", timeout=60)
        return beat

    return start


@pytest.fixture
def runreconcilers(processes: Processes) -> StartsProcess:
    """Call to start ``manage.py runreconcilers`` with more arguments, if any; returns at once."""

    def start(*argv: str, env: dict[str, str] | None = None) -> ManagedProcess:
        return processes.manage("runreconcilers", *argv, env=env)

    return start

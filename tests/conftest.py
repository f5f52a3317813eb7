"""Databases of a test run, and the fixtures of the test kit.

Each run has databases of its own: SQLite files in a temporary folder (threads and other processes write to them, so
memory will not do), or server databases whose names carry the run's id. Nothing is shared, so runs may overlap and the
leftovers of a killed run are in nobody's way.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.core.servers.basehttp import WSGIServer

pytest.register_assert_rewrite("tests.kit")

# The clients of a race come all at once; a live server with a queue of ten resets the connections of some.
WSGIServer.request_queue_size = 128

# A busy machine is no failure.
hypothesis.settings.register_profile("occ", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("occ")

pytest_plugins = [
    "tests.kit.brokers",
    "tests.kit.browsers",
    "tests.kit.chance",
    "tests.kit.failpoints",
    "tests.kit.processes",
    "tests.kit.servers",
    "tests.kit.services",
    "tests.kit.sessions",
    "tests.kit.summary",
    "tests.kit.workers",
]


_hooks_before = pytest.StashKey[dict[str, object]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_hooks_before] = _hooks_of_this_process()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves the process other than it was: who comes after it in a random order would fail."""
    yield
    assert _hooks_of_this_process() == item.stash[_hooks_before], "this test leaves hooks behind, or takes some away"


def _hooks_of_this_process() -> dict[str, object]:
    from occ import signals
    from reconcilers import registry
    from reconcilers.workqueue import nudges

    return {
        "write observers": list(signals.write_observers),
        "what sends nudges": nudges._sender,
        "what counts messages": nudges._counter,
        "allowance of nudges": nudges._allowance,
        "reconcilers": sorted(reconciler.name for reconciler in registry.all_reconcilers()),
    }


@pytest.fixture(scope="session")
def run_id(request: pytest.FixtureRequest) -> str:
    """A name that this run alone has; the same in all xdist workers of the run."""
    worker_input = getattr(request.config, "workerinput", None)
    return (worker_input["testrunuid"] if worker_input else uuid.uuid4().hex)[:8]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    run_id: str,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_modify_db_settings_parallel_suffix: None,
    request: pytest.FixtureRequest,
) -> None:
    """Name this run's databases before pytest-django creates them."""
    worker_input = getattr(request.config, "workerinput", None)
    suffix = worker_input["workerid"] if worker_input else "main"
    for alias, database in settings.DATABASES.items():
        test = database.setdefault("TEST", {})
        if database["ENGINE"].endswith("sqlite3"):
            test["NAME"] = str(tmp_path_factory.mktemp("databases") / f"{alias}.sqlite3")
        else:
            test["NAME"] = f"test_occ_{run_id}_{alias}_{suffix}"
        # Threads of tests close what they open; a connection kept for later would block dropping the database.
        database["CONN_MAX_AGE"] = 0
        if database["ENGINE"].endswith("postgresql"):
            _empty_tables_row_by_row()


def _empty_tables_row_by_row() -> None:
    """Let tests with real transactions clean up by DELETE: TRUNCATE syncs a new file per table, and takes a second."""
    from django.db.backends.postgresql.operations import DatabaseOperations

    def sql_flush(self: DatabaseOperations, style: Any, tables: list[str], **options: bool) -> list[str]:
        if any(options.values()):
            return truncate(self, style, tables, **options)
        return [f"DELETE FROM {self.quote_name(table)};" for table in tables]

    truncate = DatabaseOperations.sql_flush
    if truncate.__module__ != __name__:
        DatabaseOperations.sql_flush = sql_flush  # type: ignore[method-assign]


# Tests that start, kill and replace whole servers and workers, race every way to write against every other, build
# projects and wheels, or run the demo to its end: minutes, not seconds. They run when asked for, by --slow or by naming
# them.
SLOW = (
    "tests/docs/test_how_to.py",
    "tests/docs/test_reconcilers.py",
    "tests/faults/",
    "tests/kit/test_servers.py",
    "tests/kit/test_workers.py",
    "tests/occ/contention/test_processes.py",
    "tests/packaging/",
    "tests/project/test_demo.py",
    "tests/project/test_schema.py",
    "tests/races/test_every_pair.py",
    "tests/races/test_random_writers.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests too, as CI does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their place and the fixtures they use, so that CI can choose among them."""
    wanted = config.getoption("slow") or any(str(arg).startswith(SLOW) for arg in config.invocation_params.args)
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & {"celery_worker", "celery_beat"}:
            item.add_marker("worker")
        if "page" in names or "browser" in names:
            item.add_marker("browser")
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
            if not wanted:
                item.add_marker(pytest.mark.skip(reason="slow (kills workers and brokers): make test ARGS=--slow"))

"""``manage.py demo`` as a person runs it: real processes, figures that were measured, nothing left behind."""

import json
import os
import re
import signal
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from project.deployments.demo.options import Options
from project.deployments.demo.preflight import DemoError, require_packages
from project.deployments.demo.writers.http import RequestFailed, login
from tests.kit.processes import ManagedProcess, Processes
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

SMALL = ("--duration", "3", "--writers", "4", "--deployments", "2", "--port", "0")
PATIENCE = 240  # seconds; it takes about fifteen on an idle machine

whole_demo = pytest.mark.xdist_group("demo")  # one after another: each of them fills the machine


def left_running(processes: Processes) -> list[str]:
    """Return the commands that belong to a demo of this test and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended, or is not ours to look at
        if f"OCC_DEMO_RUN={processes.folder}".encode() in environment and command:
            found.append(command)
    return found


def runs_in(folder: Path) -> list[Path]:
    return list(folder.glob("demo-*"))


def addresses(demo: ManagedProcess) -> dict[str, str]:
    """Return what the demo prints in the end: addresses and login."""
    lines = re.findall(r"^  (Site|API|Admin|Login) +(\S.*?) *$", demo.output, re.MULTILINE)
    return dict(lines)


@pytest.fixture
def demo_to_the_end(processes: Processes, tmp_path: Path) -> tuple[ManagedProcess, dict[str, Any]]:
    """A demo in which the worker was killed, after its table, still up; and its figures."""
    figures = tmp_path / "figures.json"
    demo = processes.manage("demo", "--kill-worker", *SMALL, "--json", str(figures))
    demo.wait_for_output("Login", timeout=PATIENCE)
    return demo, json.loads(figures.read_text())


@whole_demo
def test_a_worker_killed_in_act_two_costs_no_update_and_it_stays_up_until_told_to_stop(
    processes: Processes, demo_to_the_end: tuple[ManagedProcess, dict[str, Any]]
) -> None:
    demo, measured = demo_to_the_end
    told = eventually(lambda: addresses(demo) if len(addresses(demo)) == 4 else {}, what="all four lines")
    username, _, password = told["Login"].partition(" / ")

    with closing(login(told["Site"], username, password)) as person:
        pages = [person.get(told[name], follow_redirects=True) for name in ("Site", "API", "Admin")]
    with pytest.raises(RequestFailed):
        login(told["Site"], username, "guessed")
    status = demo.terminate(timeout=60)

    assert_nothing_was_lost(measured, demo.output)
    assert "Killed the Celery worker (kill -9 " in demo.output
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert "Site administration" in pages[2].text
    assert status == 0, demo.output
    with pytest.raises(httpx.ConnectError):
        httpx.get(told["Site"])
    assert left_running(processes) == []
    assert runs_in(processes.folder) == []


def assert_nothing_was_lost(measured: dict[str, Any], output: str) -> None:
    guarded, unguarded, story = measured["guarded"], measured["unguarded"], measured["story"]
    assert measured["problems"] == [], output
    assert (measured["worker_killed"], measured["unsettled"]) == (True, [])
    assert unguarded["lost"] > 0
    assert {name: guarded[name] for name in ("lost", "same_version", "unrecorded", "failures")} == {
        "lost": 0,
        "same_version": 0,
        "unrecorded": 0,
        "failures": [],
    }
    assert {kind for kind, count in guarded["writers"].items() if count["writes"]} == {
        "Autoscaler",
        "HTTP client",
        "Rollout",
        "Admin user",
        "mutate caller",
    }
    assert (story["read"], story["won"], story["refused"], story["written"]) == (42, 43, [42, 43], 44)


@whole_demo
def test_told_to_stop_in_the_middle_it_ends_every_process(processes: Processes) -> None:
    demo = processes.manage("demo", "--exit", *SMALL)
    demo.wait_for_output("Act one", timeout=PATIENCE)

    os.kill(demo.pid, signal.SIGINT)
    status = demo.wait(timeout=60)

    assert status == 130
    assert demo.output.splitlines()[-1] == "CommandError: Stopped before the end."
    assert left_running(processes) == []
    assert runs_in(processes.folder) == []


def test_a_port_in_use_is_one_line_with_the_remedy(processes: Processes) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        demo = processes.manage("demo", "--exit", "--port", str(port))
        status = demo.wait(timeout=60)

    assert status == 1
    assert demo.output == (
        f"CommandError: Cannot listen on 127.0.0.1:{port} (Address already in use). "
        "Pass another --port, or --port 0 for any free one.\n"
    )
    assert left_running(processes) == []
    assert runs_in(processes.folder) == []


@pytest.mark.parametrize(
    ("variable", "scheme", "beginning"),
    [
        ("DATABASE_URL", "postgres://someone:secret@127.0.0.1:{port}/shop", "The database shop on 127.0.0.1:{port}"),
        ("DATABASE_URL", "mysql://someone:secret@127.0.0.1:{port}/shop", "The database shop on 127.0.0.1:{port}"),
        ("CELERY_BROKER_URL", "redis://:secret@127.0.0.1:{port}/0", "The broker of CELERY_BROKER_URL"),
        ("CELERY_BROKER_URL", "amqp://someone:secret@127.0.0.1:{port}//", "The broker of CELERY_BROKER_URL"),
    ],
)
def test_a_server_that_is_not_there_is_one_line_with_the_remedy(
    plain_processes: Processes, tmp_path: Path, variable: str, scheme: str, beginning: str
) -> None:
    if scheme.startswith("mysql://"):
        pytest.importorskip("MySQLdb", reason="MariaDB's driver is not here: pip install mysqlclient")
    port = free_port()
    environment = {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "OCC_RUN_DIR": str(tmp_path),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
        variable: scheme.format(port=port),
    }

    demo = plain_processes.manage("demo", "--exit", "--port", "0", env=environment)
    status = demo.wait(timeout=60)

    assert status == 1
    (line,) = demo.output.splitlines()
    assert line.startswith(f"CommandError: {beginning.format(port=port)} cannot be reached (")
    assert line.endswith(f": start it, or correct or unset {variable}.")
    assert "secret" not in line
    assert runs_in(tmp_path) == []


def test_a_run_directory_that_cannot_be_written_is_one_line_with_the_remedy(
    plain_processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings", "OCC_RUN_DIR": str(tmp_path / "file" / "run")}

    demo = plain_processes.manage("demo", "--exit", env=environment)
    status = demo.wait(timeout=60)

    assert status == 1
    (line,) = demo.output.splitlines()
    assert "cannot be written to (Not a directory): set OCC_RUN_DIR" in line


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"duration": 0.5}, "--duration must be from 1 to 3600 seconds, not 0.5."),
        ({"writers": 1}, "--writers must be from 2 to 64, not 1."),
        ({"deployments": 0}, "--deployments must be from 1 to 500, not 0."),
        ({"port": 65536}, "--port must be from 0 (any free one) to 65535, not 65536."),
    ],
)
def test_an_option_out_of_its_range_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        Options(**wrong)

    assert str(raised.value) == message


def test_packages_that_are_not_installed_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("gunicorn", "rich"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(DemoError) as raised:
        require_packages()

    assert str(raised.value) == (
        "Not installed: gunicorn, rich. Install the demo's packages: pip install 'django-occ[demo]'."
    )

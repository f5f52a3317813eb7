"""DATABASE_URL and CELERY_BROKER_URL: what they mean, and one line for each way to get them wrong."""

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import servers
from tests.kit.processes import Processes
from tests.kit.servers import free_port


def test_no_url_is_a_sqlite_file_in_the_run_directory_that_many_may_write(tmp_path: Path) -> None:
    database = servers.database("", tmp_path)

    assert database == {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "occ.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }


@pytest.mark.parametrize(("url", "path"), [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////a/b%20c.db", "/a/b c.db")])
def test_a_sqlite_url_has_a_relative_or_an_absolute_path(url: str, path: str, tmp_path: Path) -> None:
    assert servers.database(url, tmp_path)["NAME"] == path


def test_a_server_url_is_taken_apart_and_unquoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_require_module", lambda *facts: None)

    database = servers.database("postgres://us%40er:p%2Fw@db.example:5433/na%20me?sslmode=require", tmp_path)

    assert database == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "na me",
        "USER": "us@er",
        "PASSWORD": "p/w",
        "HOST": "db.example",
        "PORT": "5433",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, "sslmode": "require"},
    }


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_mariadb_speaks_all_of_unicode(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_require_module", lambda *facts: None)

    database = servers.database(f"{scheme}://root@localhost/shop", tmp_path)

    assert (database["ENGINE"], database["OPTIONS"]["charset"]) == ("django.db.backends.mysql", "utf8mb4")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("shop", "is not a URL: write SCHEME://..., or unset it"),
        ("oracle://h/n", "unknown scheme 'oracle': use sqlite://, postgres:// or mysql://"),
        ("sqlite://", "names no file that several processes can share: write sqlite:///relative/path"),
        ("sqlite:///:memory:", "names no file that several processes can share"),
        ("postgres://h:port/n", "does not parse .*check its host and port"),
        ("postgres://h:5432", "names no database: end it with /NAME"),
    ],
)
def test_a_wrong_database_url_is_told_with_its_remedy(url: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^DATABASE_URL .*{message}"):
        servers.database(url, tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("rabbit", "is not a URL"),
        ("kafka://h", "unknown scheme 'kafka': use filesystem://, amqp:// or redis://"),
        ("redis://h:x/0", "does not parse"),
    ],
)
def test_a_wrong_broker_url_is_told_with_its_remedy(url: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^CELERY_BROKER_URL .*{message}"):
        servers.broker(url, tmp_path)


def test_a_missing_driver_is_told_with_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ImproperlyConfigured) as mysql:
        servers.database("mysql://h/n", tmp_path)
    with pytest.raises(ImproperlyConfigured) as redis:
        servers.broker("redis://h/0", tmp_path)

    assert (str(mysql.value), str(redis.value)) == (
        "DATABASE_URL uses mysql://, whose driver is not installed: pip install mysqlclient.",
        "CELERY_BROKER_URL uses redis://, whose driver is not installed: pip install redis packaging.",
    )


def test_no_broker_url_is_a_folder_in_the_run_directory(tmp_path: Path) -> None:
    broker = servers.broker("", tmp_path)

    assert (broker["url"], broker["transport"]) == ("filesystem://", "project.broker:Transport")
    assert broker["transport_options"]["data_folder_in"] == str(tmp_path / "broker" / "messages")


def test_a_silent_redis_does_not_hold_anybody_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_require_module", lambda *facts: None)

    options = servers.broker("redis://h/0", tmp_path)["transport_options"]

    assert options == {"socket_timeout": 5, "socket_connect_timeout": 2, "socket_keepalive": True}


def test_a_command_with_a_wrong_url_ends_with_one_line(plain_processes: Processes, tmp_path: Path) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings", "OCC_RUN_DIR": str(tmp_path)}

    command = plain_processes.manage("migrate", env={**environment, "DATABASE_URL": "oracle://host/name"})

    assert (command.wait(), command.output) == (
        1,
        "Error: DATABASE_URL has the unknown scheme 'oracle': use sqlite://, postgres:// or mysql://.\n",
    )


def test_a_command_whose_database_is_not_there_ends_with_one_line(plain_processes: Processes, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not here: pip install 'psycopg[binary]'")
    port = free_port()
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings", "OCC_RUN_DIR": str(tmp_path)}
    url = f"postgres://someone:secret@127.0.0.1:{port}/shop"

    command = plain_processes.manage("migrate", env={**environment, "DATABASE_URL": url})
    status = command.wait()

    assert status == 1
    assert command.output.startswith(f"Error: The database shop on 127.0.0.1:{port} cannot be reached (")
    assert command.output.endswith("): start it, or correct or unset DATABASE_URL.\n")
    assert command.output.count("\n") == 1
    assert "secret" not in command.output


def test_all_processes_of_a_run_directory_share_one_secret_key(plain_processes: Processes, tmp_path: Path) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings", "OCC_RUN_DIR": str(tmp_path), "OCC_SECRET_KEY": ""}
    code = "from project import settings; print(settings.SECRET_KEY)"
    started = [plain_processes.python("-c", code, env=environment) for _ in range(4)]

    statuses = [process.wait() for process in started]
    keys = {process.output for process in started}

    assert (statuses, len(keys), os.listdir(tmp_path).count("secret_key")) == ([0] * 4, 1, 1)

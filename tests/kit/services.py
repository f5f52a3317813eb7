"""Which servers, browsers and interpreters are here, and what a test does where one is not."""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

POSTGRES_URL = os.environ.get("OCC_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test")
MARIADB_URL = os.environ.get("OCC_MARIADB_URL", "mysql://root@127.0.0.1:3306/test")


@dataclass(frozen=True, kw_only=True)
class Service:
    """Something outside Python that tests use: how to see that it is here, and how to get it."""

    title: str
    present: Callable[[], bool]
    remedy: str


def chromium_path() -> str | None:
    """Return Debian's (or any other) Chromium; Playwright's own download is not needed."""
    return os.environ.get("OCC_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def rabbitmq_script() -> str | None:
    """Return the server's own script: the wrapper on the PATH changes the user, and would run as another."""
    beside_wrapper = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    return beside_wrapper if os.access(beside_wrapper, os.X_OK) else shutil.which("rabbitmq-server")


def nginx_path() -> str | None:
    """Return nginx, which Debian puts where only root's PATH looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _succeeds(command: str, *arguments: str) -> bool:
    path = shutil.which(command)
    return path is not None and subprocess.run([path, *arguments], capture_output=True).returncode == 0


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 0), timeout=2):
            return True
    except OSError:
        return False


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


SERVICES = {
    "postgres": Service(
        title="PostgreSQL",
        present=lambda: _importable("psycopg") and _answers(POSTGRES_URL),
        remedy="`make services` starts one, or name yours in OCC_POSTGRES_URL; pip install 'psycopg[binary]'",
    ),
    "mariadb": Service(
        title="MariaDB",
        present=lambda: _importable("MySQLdb") and _answers(MARIADB_URL),
        remedy="`make services` starts one, or name yours in OCC_MARIADB_URL; pip install mysqlclient",
    ),
    "redis": Service(
        title="Redis",
        present=lambda: _importable("redis") and shutil.which("redis-server") is not None,
        remedy="apt-get install redis-server; pip install redis packaging",
    ),
    "rabbitmq": Service(
        title="RabbitMQ",
        present=lambda: rabbitmq_script() is not None and shutil.which("epmd") is not None,
        remedy="apt-get install rabbitmq-server",
    ),
    "nginx": Service(
        title="nginx",
        present=lambda: nginx_path() is not None,
        remedy="apt-get install nginx-light",
    ),
    "curl": Service(
        title="curl",
        present=lambda: shutil.which("curl") is not None,
        remedy="apt-get install curl",
    ),
    "node": Service(
        title="Node.js 18 or newer (its fetch)",
        present=lambda: _succeeds("node", "-e", "process.exit(typeof fetch === 'function' ? 0 : 1)"),
        remedy="apt-get install nodejs, version 18 or newer",
    ),
    "chromium": Service(
        title="Chromium",
        present=lambda: _importable("playwright") and chromium_path() is not None,
        remedy="apt-get install chromium, or name yours in OCC_CHROMIUM; pip install pytest-playwright",
    ),
}


def require(name: str) -> None:
    """Go on where service ``name`` is here; else skip with its remedy, or fail under OCC_REQUIRE_SERVICES=1."""
    service = SERVICES[name]
    if service.present():
        return
    message = f"{service.title} is not here: {service.remedy}"
    if os.environ.get("OCC_REQUIRE_SERVICES") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def require_service() -> Callable[[str], None]:
    """Call with "postgres", "mariadb", "redis", "rabbitmq", "nginx", "curl", "node" or "chromium" before using it."""
    return require

"""DATABASE_URL and CELERY_BROKER_URL, turned into Django's and Celery's settings.

Called by ``project.settings`` while the settings load, so nothing here may need them; ``require_reachable`` alone is
for afterwards. Each mistake is one ``ImproperlyConfigured`` sentence with its remedy.
"""

import importlib.util
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

CONNECT_SECONDS = 5

_POSTGRES = {"postgres", "postgresql"}
_MYSQL = {"mysql", "mariadb"}
_REDIS = {"redis", "rediss"}
_AMQP = {"amqp", "amqps"}


def database(url: str, run_dir: Path) -> dict[str, Any]:
    """Return the entry of DATABASES that a URL names; the empty string is the SQLite file of the run directory.

    ``sqlite:///relative/path``, ``sqlite:////absolute/path``, ``postgres://user:password@host:port/name`` and
    ``mysql://user:password@host:port/name`` (or ``mariadb://``); a query string becomes OPTIONS.
    """
    if not url:
        run_dir.mkdir(parents=True, exist_ok=True)
        return _sqlite(str(run_dir / "occ.sqlite3"), {})
    parts = _split("DATABASE_URL", url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    if parts.scheme == "sqlite":
        return _sqlite(_sqlite_path(url, parts), options)
    if parts.scheme in _POSTGRES:
        _require_module("psycopg", 'pip install "psycopg[binary]"', "DATABASE_URL", parts.scheme)
        return _server("django.db.backends.postgresql", parts, {"connect_timeout": CONNECT_SECONDS, **options})
    if parts.scheme in _MYSQL:
        _require_module("MySQLdb", "pip install mysqlclient", "DATABASE_URL", parts.scheme)
        defaults = {"charset": "utf8mb4", "connect_timeout": CONNECT_SECONDS}
        return _server("django.db.backends.mysql", parts, {**defaults, **options})
    raise ImproperlyConfigured(
        f"DATABASE_URL has the unknown scheme {parts.scheme!r}: use sqlite://, postgres:// or mysql://."
    )


def broker(url: str, run_dir: Path) -> dict[str, Any]:
    """Return Celery's broker settings for a URL; the empty string is the filesystem broker of the run directory.

    Keys are ``url``, ``transport`` (None: the one of the URL's scheme) and ``transport_options``. Redis gets socket
    timeouts: without them a worker hangs on a server that accepts connections and is silent.
    """
    if not url:
        url = "filesystem://"
    parts = _split("CELERY_BROKER_URL", url)
    if parts.scheme == "filesystem":
        folder = Path(unquote(parts.path)) if parts.path else run_dir / "broker"
        return {"url": "filesystem://", "transport": "project.broker:Transport", "transport_options": _folders(folder)}
    if parts.scheme in _AMQP:
        return {"url": url, "transport": None, "transport_options": {"confirm_publish": True}}
    if parts.scheme in _REDIS:
        _require_module("redis", "pip install redis packaging", "CELERY_BROKER_URL", parts.scheme)
        _require_module("packaging", "pip install packaging", "CELERY_BROKER_URL", parts.scheme)
        options = {"socket_timeout": 5, "socket_connect_timeout": 2, "socket_keepalive": True}
        return {"url": url, "transport": None, "transport_options": options}
    raise ImproperlyConfigured(
        f"CELERY_BROKER_URL has the unknown scheme {parts.scheme!r}: use filesystem://, amqp:// or redis://."
    )


def _split(variable: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{variable} does not parse ({error}): check its host and port.") from error
    if not parts.scheme or "://" not in url:
        raise ImproperlyConfigured(f"{variable} is not a URL: write SCHEME://..., or unset it for the embedded one.")
    return parts


def _sqlite_path(url: str, parts: SplitResult) -> str:
    path = unquote(parts.path)[1:]
    if parts.netloc or not path or path == ":memory:":
        raise ImproperlyConfigured(
            f"DATABASE_URL {url!r} names no file that several processes can share: "
            "write sqlite:///relative/path or sqlite:////absolute/path."
        )
    return path


def _sqlite(path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return SQLite settings under which many writers queue: WAL, write lock taken at BEGIN, patience."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            **options,
        },
    }


def _server(engine: str, parts: SplitResult, options: dict[str, Any]) -> dict[str, Any]:
    name = unquote(parts.path)[1:]
    if not name:
        raise ImproperlyConfigured(f"DATABASE_URL names no database: end it with /NAME, as {parts.scheme}://host/NAME.")
    return {
        "ENGINE": engine,
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def _folders(folder: Path) -> dict[str, Any]:
    """Return the filesystem transport's options: one folder for both directions, since all run on one machine."""
    messages = str(folder / "messages")
    return {
        "data_folder_in": messages,
        "data_folder_out": messages,
        "processed_folder": str(folder / "taken"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    }


def _require_module(module: str, remedy: str, variable: str, scheme: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ImproperlyConfigured(f"{variable} uses {scheme}://, whose driver is not installed: {remedy}.")


def unreachable(database: dict[str, Any], error: Exception) -> str:
    """Return the one line that tells of a database that does not answer, without its password."""
    where = database["NAME"]
    if database["HOST"]:
        where = f"{where} on {database['HOST']}:{database['PORT'] or 'the usual port'}"
    reason = " ".join(str(error).split()).rstrip(".")
    return f"The database {where} cannot be reached ({reason}): start it, or correct or unset DATABASE_URL."

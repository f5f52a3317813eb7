"""What can be wrong before a demo starts; each is one ``DemoError`` sentence with its remedy."""

import importlib.util
import os
import socket
import time
from pathlib import Path

from django.db import DatabaseError, connection

from project.servers import unreachable

PACKAGES = {
    "celery": "celery",
    "gunicorn": "gunicorn",
    "httpx": "httpx",
    "rest_framework": "djangorestframework",
    "rich": "rich",
    "whitenoise": "whitenoise",
}
HOST = "127.0.0.1"


class DemoError(Exception):
    """The demo cannot go on; the message is one line for the person who started it."""


def require_packages() -> None:
    """Raise ``DemoError`` naming the packages of the extra ``demo`` that are not installed."""
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise DemoError(
            f"Not installed: {', '.join(missing)}. Install the demo's packages: pip install 'django-occ[demo]'."
        )


def make_run_directory(base: Path) -> Path:
    """Create a fresh directory for this run below ``base``."""
    folder = base / f"demo-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        for path in (folder, folder / "logs", folder / "events"):
            path.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise DemoError(
            f"Cannot create the run directory {folder} ({error.strerror}). Set OCC_RUN_DIR to a folder that you may "
            "write to."
        ) from error
    return folder


def require_writable(path: Path) -> None:
    """Raise ``DemoError`` unless a file can be written at ``path``, which is left empty where it was not there."""
    try:
        path.open("a").close()
    except OSError as error:
        raise DemoError(f"Cannot write {path} ({error.strerror}). Name another file in --json.") from error


def listen(port: int) -> socket.socket:
    """Return a socket that listens on ``port`` of this machine, to be handed to the web server."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise DemoError(
            f"Cannot listen on {HOST}:{port} ({error.strerror}). Pass another --port, or --port 0 for any free one."
        ) from error
    return listener


def require_database() -> None:
    """Raise ``DemoError`` unless the database answers."""
    try:
        connection.ensure_connection()
    except DatabaseError as error:
        raise DemoError(unreachable(connection.settings_dict, error)) from error

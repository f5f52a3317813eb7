"""The processes that a demo needs, started and ready: web server, Celery worker and beat, and the writers."""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from project.deployments.demo.events import Event, EventReader, What
from project.deployments.demo.preflight import HOST, DemoError
from project.deployments.demo.processes import Process, Supervisor
from project.deployments.demo.telemetry import EVENTS

START_SECONDS = 60.0
LOOK_SECONDS = 0.1


class Stage:
    """Starts the demo's processes and hears what they tell."""

    def __init__(self, supervisor: Supervisor, run_directory: Path) -> None:
        self._supervisor = supervisor
        self._events_folder = run_directory / "events"
        self._reader = EventReader(self._events_folder)
        self._ready: set[str] = set()
        self._workers = 0
        self._writers = 0
        self.worker: Process | None = None
        self.site = ""

    def events(self) -> list[Event]:
        """Return what was told since the last call; ``ProcessDied`` if a process ended by itself."""
        self._supervisor.require_all_running()
        events = list(self._reader.new())
        self._ready |= {event.writer for event in events if event.what is What.READY}
        return events

    def start_site(self, listener: socket.socket) -> None:
        """Start gunicorn on a socket that listens already, so that no other program can take the port."""
        self.site = f"http://{HOST}:{listener.getsockname()[1]}"
        config = "python:project.deployments.demo.web_server"
        command = ["project.wsgi:application", "--config", config, "--bind", f"fd://{listener.fileno()}"]
        self._python("site", "gunicorn", *command, fds=[listener.fileno()])
        listener.close()

    def start_worker(self) -> None:
        """Start a Celery worker."""
        self._workers += 1
        name = f"worker {self._workers}"
        node = f"demo{os.getpid()}-{self._workers}@%h"
        command = ["celery", "-A", "project", "worker", "--concurrency", "2", "--loglevel", "INFO", "-n", node]
        quiet = ["--without-gossip", "--without-mingle"]
        self.worker = self._python(name, *command, *quiet, environment={EVENTS: str(self._events_folder)})

    def start_beat(self) -> None:
        """Start Celery beat."""
        self._python("beat", "celery", "-A", "project", "beat", "--loglevel", "INFO", "--pidfile", "")

    def start_writers(self, *kinds: str, environment: Mapping[str, str] | None = None) -> Process:
        """Start a process with writers, such as ``"http=4"``."""
        self._writers += 1
        return self._python(
            f"writers {self._writers}",
            "project.deployments.demo.writers",
            *kinds,
            environment={"OCC_DEMO_SITE": self.site, **(environment or {})},
        )

    def wait_for_site(self) -> None:
        """Return when the site answers."""
        self._wait_until(self._site_answers, what="The site")

    def wait_for_worker(self) -> None:
        """Return when the newest worker takes tasks."""
        assert self.worker is not None  # noqa: S101 - the caller has started it
        self.wait_for(self.worker)

    def wait_for(self, process: Process) -> None:
        """Return when a process has told that it is ready."""
        self._wait_until(lambda: str(process.pid) in self._ready, what=process.name.capitalize())

    def _wait_until(self, condition: Callable[[], bool], *, what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.events()
            if time.monotonic() > deadline:
                raise DemoError(f"{what} was not ready after {START_SECONDS:.0f} s; its log tells why.")
            time.sleep(LOOK_SECONDS)

    def _site_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.site}/", timeout=5):  # noqa: S310 - our own http:// address
                return True
        except urllib.error.HTTPError as error:
            raise DemoError(f"The site answers {error.code} ({error.reason}); its log tells why.") from error
        except OSError:
            return False

    def _python(
        self,
        name: str,
        module: str,
        *arguments: str,
        fds: list[int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        command = [sys.executable, "-m", module, *arguments]
        return self._supervisor.start(name, command, fds=fds or [], environment=environment)

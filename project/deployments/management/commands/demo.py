"""``manage.py demo``: real processes race for the same rows, and nothing is lost."""

import logging
import os
import shutil
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from project.deployments.demo.options import Options
from project.deployments.demo.preflight import DemoError, make_run_directory, require_packages
from project.deployments.demo.processes import ProcessDied

RUN = "OCC_DEMO_RUN"  # the run directory that this process, and every one it starts, belongs to


class Command(BaseCommand):
    """Checks what was asked for, gives the run a directory of its own and starts the show in it."""

    help = (
        "Let HTTP clients, application code, an admin user and two reconcilers write the same deployments at once, "
        "first unguarded, then guarded, and count what is lost. DATABASE_URL and CELERY_BROKER_URL are honoured: "
        "what an earlier demo left in that database is replaced."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options; their meaning is in ``Options``."""
        default = Options()
        parser.add_argument("--duration", type=float, default=default.duration, help="seconds of racing (%(default)g)")
        parser.add_argument(
            "--writers", type=int, default=default.writers, help="HTTP clients and mutate callers (%(default)s)"
        )
        parser.add_argument(
            "--deployments", type=int, default=default.deployments, help="rows; fewer are hotter (%(default)s)"
        )
        parser.add_argument("--port", type=int, default=default.port, help="of the site; 0: any free one (%(default)s)")
        parser.add_argument(
            "--kill-worker", action="store_true", help="kill -9 the Celery worker in act two and start another"
        )
        parser.add_argument(
            "--exit", action="store_true", help="end after the table; status 0 only if nothing was lost"
        )
        parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to this file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the demo."""
        try:
            chosen = Options(**{name: options[name] for name in Options.__dataclass_fields__})
            require_packages()
            if RUN not in os.environ:
                _begin_in(make_run_directory(settings.RUN_DIR))
            self._run(chosen, Path(os.environ[RUN]))
        except (ValueError, DemoError, ProcessDied) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped before the end.", returncode=130) from None

    def _run(self, options: Options, run_directory: Path) -> None:
        from project.deployments.demo.progress import make_console
        from project.deployments.demo.show import run

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        _log_to(run_directory / "logs" / "demo.log")
        keep = False
        try:
            succeeded = run(options, run_directory, make_console())
            keep = not succeeded
        except (DemoError, ProcessDied):
            keep = any(run_directory.glob("logs/*"))
            raise
        finally:
            if keep:
                self.stderr.write(f"Logs and data of this run are kept in {run_directory}")
            else:
                shutil.rmtree(run_directory, ignore_errors=True)
        if not succeeded:
            sys.exit(1)


def _begin_in(run_directory: Path) -> None:
    """Start this command over with settings that put database, broker and logs into the run's own directory."""
    environment = {
        # Short, so that a person sees a killed worker's work taken over.
        "OCC_LEASE_SECONDS": "3",
        "OCC_NUDGE_AGAIN_SECONDS": "3",
        **os.environ,
        # Of this run alone, so that no worker of another one takes its messages.
        "OCC_QUEUE": f"occ-{run_directory.name}",
        "OCC_RUN_DIR": str(run_directory),
        RUN: str(run_directory),
    }
    sys.stdout.flush()
    os.execve(sys.executable, sys.orig_argv, environment)  # noqa: S606 - the command that we already are


def _log_to(path: Path) -> None:
    """Keep what our own process logs out of the display."""
    logging.getLogger().handlers = [logging.FileHandler(path, delay=True)]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

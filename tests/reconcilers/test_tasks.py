"""The Celery side: the two tasks, eager mode, routing, and a web process that knows no broker."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reconcilers
from reconcilers import Reconciler
from reconcilers.models import WorkItem
from tests.library.models import Counter
from tests.reconcilers.conftest import Register

pytest.importorskip("celery")

from reconcilers import tasks

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def eager(settings: Any) -> Iterator[None]:
    settings.RECONCILERS = {"NUDGE": True}
    app = tasks.run.app
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


def test_in_eager_mode_runs_follow_each_other_and_never_nest(register: Register, eager: None) -> None:
    log: list[str] = []

    @register
    class Chain(Reconciler):
        model = Counter

        def reconcile(self, counter: Counter) -> None:
            log.append(f"begin {counter.value}")
            if counter.value < 3:
                Counter.objects.create(value=counter.value + 1)
            log.append(f"end {counter.value}")

    Counter.objects.create(value=1)

    assert log == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


def test_a_message_that_this_process_cannot_serve_leaves_the_item_alone(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    idle = register(type("Idle", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None}))
    reconcilers.enqueue(idle, 1)
    before = WorkItem.objects.values().get()

    with caplog.at_level(logging.ERROR, "reconcilers"):
        tasks.run("Renamed", "1", "default")
        tasks.run("Idle", "no number", "default")
        tasks.run("Idle", None, "default")  # type: ignore[arg-type]
        tasks.run(5, ["1"], "default")  # type: ignore[arg-type]
        tasks.run("Idle", "1", "nowhere")
        tasks.sweep("nowhere")

    assert WorkItem.objects.values().get() == before
    assert [message.split(";")[0] for message in caplog.messages] == [
        "A message was left alone: No reconciler is named 'Renamed'",
        "A message was left alone: Idle has no key 'no number': give the primary key of a library.Counter (id: "
        "BigAutoField).",
        "A message was left alone: Idle has no key None: give the primary key of a library.Counter (id: BigAutoField).",
        "A message was left alone: No reconciler is named '5'",
        "A message was left alone: The connection 'nowhere' doesn't exist.",
        "A message was left alone: The connection 'nowhere' doesn't exist.",
    ]


def test_messages_go_to_the_queue_of_the_reconciler(register: Register) -> None:
    register(type("Slow", (Reconciler,), {"model": Counter, "queue": "slow", "reconcile": lambda self, obj: None}))

    assert tasks._route("Slow") == {"queue": "slow"}


def test_beat_sweeps_as_often_as_the_settings_say(settings: Any) -> None:
    settings.RECONCILERS = {"SWEEP_SECONDS": 3}

    assert reconcilers.celery_beat_schedule() == {
        "reconcilers.sweep": {
            "task": "reconcilers.sweep",
            "schedule": 3,
            "options": {"expires": 15, "ignore_result": True},
        }
    }


PROCESS = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "bare"
import types
bare = types.ModuleType("bare")
bare.SECRET_KEY = "x"
bare.DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
bare.INSTALLED_APPS = ["django.contrib.contenttypes", "reconcilers", "tests.library"]
bare.DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
bare.RECONCILERS = RECONCILERS
sys.modules["bare"] = bare
if NO_CELERY:
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("celery", "kombu"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Absent())
    import importlib.util
    genuine = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name == "celery" else genuine(name, *rest)
import django
django.setup()
from reconcilers import Reconciler, register
from tests.library.models import Counter
@register
class Settler(Reconciler):
    model = Counter
    def reconcile(self, counter):
        counter.value = 5
from django.core.management import call_command
"""

MIGRATE = "call_command('migrate', run_syncdb=True, verbosity=0)\n"


def bare_process(code: str, *, no_celery: bool, nudge: bool = True) -> subprocess.CompletedProcess[str]:
    """Run code in a process of a project that has made no Celery app."""
    header = f"NO_CELERY = {no_celery}\nRECONCILERS = {{'NUDGE': {nudge}}}\n"
    return subprocess.run(
        [sys.executable, "-c", header + PROCESS + code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )


def test_a_process_that_has_not_imported_the_celery_app_is_told_so_by_check() -> None:
    checked = bare_process("call_command('check')", no_celery=False)
    switched_off = bare_process("call_command('check')", no_celery=False, nudge=False)

    assert checked.returncode == 1
    assert "reconcilers.E002" in checked.stderr
    assert "from .celery import app as celery_app" in checked.stderr
    assert "reconcilers" not in switched_off.stderr


def test_a_process_that_has_not_imported_the_celery_app_does_not_hang_at_a_commit() -> None:
    code = MIGRATE + "for _ in range(3): Counter.objects.create()\nprint('done')"

    ran = bare_process(code, no_celery=False)

    assert (ran.returncode, ran.stdout) == (0, "done\n")
    assert ran.stderr.count("Workers are not woken from this process") == 1


def test_everything_works_without_celery() -> None:
    code = MIGRATE + (
        "Counter.objects.create()\ncall_command('runreconcilers', burst=True)\nprint(Counter.objects.get().value)"
    )

    ran = bare_process(code, no_celery=True)

    assert ran.returncode == 0, ran.stderr
    assert "reconcilers" not in ran.stderr
    assert ran.stdout.splitlines()[-2:] == ["2 runs.", "5"]

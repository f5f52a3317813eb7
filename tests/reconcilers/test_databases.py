"""Several databases: a work item lives where its row is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROCESS = """
import sys, types
from pathlib import Path
folder = Path(sys.argv[1])

class Router:
    def db_for_read(self, model, **hints):
        return "shelves" if model._meta.app_label == "library" and model._meta.model_name != "author" else None
    db_for_write = db_for_read
    def allow_migrate(self, db, app_label, **hints):
        return ALLOWED if (db, app_label) == ("shelves", "reconcilers") else None

settings = types.ModuleType("settings_of_two")
settings.SECRET_KEY = "x"
settings.DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
settings.INSTALLED_APPS = ["django.contrib.contenttypes", "reconcilers", "tests.library"]
settings.DATABASES = {
    name: {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / f"{name}.sqlite3"}
    for name in ("default", "shelves")
}
settings.DATABASE_ROUTERS = [Router()]
settings.RECONCILERS = {"NUDGE": False}
sys.modules["settings_of_two"] = settings
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings_of_two"
import django
django.setup()
from django.core.management import call_command
from reconcilers import Reconciler, register, enqueue
from reconcilers.models import WorkItem
from tests.library.models import Counter

@register
class Settler(Reconciler):
    model = Counter
    def reconcile(self, counter):
        counter.value = 5
"""


def process(code: str, folder: Path, *, allowed: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"ALLOWED = {allowed}\n{PROCESS}{code}", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )


def test_items_live_beside_their_rows_and_are_worked_there(tmp_path: Path) -> None:
    ran = process(
        """
for database in ("default", "shelves"):
    call_command("migrate", run_syncdb=True, database=database, verbosity=0)
counter = Counter.objects.create()
enqueue(Settler, 77)
print([WorkItem.objects.using(database).count() for database in ("default", "shelves")])
call_command("runreconcilers", burst=True)
print(Counter.objects.get().value, sorted(WorkItem.objects.using("shelves").values_list("key", "observed_version")))
""",
        tmp_path,
    )

    assert ran.stdout.splitlines() == ["[0, 2]", "Reconciling Settler on shelves.", "3 runs.", "5 [('1', 2)]"], (
        ran.stderr
    )


def test_a_copy_saved_to_another_database_leaves_the_row_to_be_written(tmp_path: Path) -> None:
    ran = process(
        """
from reconcilers.registry import unregister
unregister(Settler)

@register
class Copier(Reconciler):
    model = Counter
    def reconcile(self, counter):
        if counter.value == 3:
            counter.value = 4
            counter.save(using="default")

for database in ("default", "shelves"):
    call_command("migrate", run_syncdb=True, database=database, verbosity=0)
Counter.objects.create(value=3)
call_command("runreconcilers", burst=True, verbosity=0)
print([Counter.objects.using(database).get().value for database in ("default", "shelves")])
""",
        tmp_path,
    )

    assert ran.stdout.splitlines() == ["[4, 4]"], ran.stderr


def test_a_database_that_does_not_answer_keeps_no_other_from_being_swept_and_worked(tmp_path: Path) -> None:
    ran = process(
        """
from django.db import OperationalError, connections
from reconcilers import registry
from reconcilers.management.runner import Runner, Stop
from reconcilers.workqueue import reports, sweeper
from tests.library.models import Author

stop = Stop()

@register
class Naming(Reconciler):
    model = Author
    def reconcile(self, author): ...

@register
class Stopping(Reconciler):
    model = Counter
    def reconcile(self, counter):
        stop.set()

call_command("migrate", run_syncdb=True, database="shelves", verbosity=0)
Counter.objects.create()
connections["default"].settings_dict["NAME"] = folder / "gone" / "default.sqlite3"
print(sweeper.databases())
try:
    sweeper.sweep()
except OperationalError:
    print("swept", reports.last_sweep("shelves") is not None)
Runner(registry.all_reconcilers(), sweeper.databases(), stop=stop).work()
print("worked", WorkItem.objects.using("shelves").exclude(last_success_at=None).exists())
""",
        tmp_path,
    )

    assert ran.stdout.splitlines() == ["['default', 'shelves']", "swept True", "worked True"], ran.stderr
    assert "Database 'default' does not answer" in ran.stderr


def test_a_database_that_may_not_hold_work_items_is_an_error_of_check(tmp_path: Path) -> None:
    ran = process("call_command('check')", tmp_path, allowed=False)

    assert ran.returncode == 1
    assert "reconcilers.E001" in ran.stderr
    assert "allow_migrate('shelves', 'reconcilers')" in ran.stderr

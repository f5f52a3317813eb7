"""occ and reconcilers import and work where DRF, Celery and the admin are not installed."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
    import sys

    ABSENT = ("rest_framework", "celery", "kombu", "httpx", "django.contrib.admin", "project")

    class Hiding:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            hidden = name in ABSENT or name.startswith(tuple(f"{package}." for package in ABSENT))
            return None if hidden else self.finder.find_spec(name, path, target)

        def __getattr__(self, name):
            return getattr(self.finder, name)

    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]

    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "occ", "reconcilers", "tests.library"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
    )
    import django
    django.setup()

    from django.core.management import call_command
    call_command("check")
    call_command("migrate", run_syncdb=True, verbosity=0)

    import occ
    import reconcilers
    from tests.library.models import Counter

    @reconcilers.register
    class Double(reconcilers.Reconciler):
        model = Counter

        def reconcile(self, counter):
            if counter.value == 4:
                counter.value = 8

    counter = Counter.objects.create()
    Counter.objects.mutate(counter.pk, lambda copy: setattr(copy, "value", 4))
    try:
        counter.save()
    except occ.Conflict:
        print("refused")
    call_command("runreconcilers", "--once")
    print("value", Counter.objects.get().value)
    print("imported", sorted(name for name in ABSENT if name in sys.modules))
"""


def test_the_guard_and_the_reconcilers_work_with_django_alone():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT)], cwd=ROOT, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr
    assert {"refused", "value 8", "imported []"} <= set(run.stdout.splitlines())

"""USE_TZ = False on sessions that are far from UTC: the queue's clock is the database's own, and right all the same."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.kit.processes import Processes
from tests.kit.workers import databases_environment

# On the database of the test: nothing below may be off by the five and a half hours.
SCRIPT = """
from datetime import timedelta

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from reconcilers import Reconciler, enqueue, registry
from reconcilers.testing import InlineRunner
from reconcilers.workqueue import reports, steps
from tests.library.models import Counter

class Patient(Reconciler):
    model = Counter
    lease = timedelta(minutes=10)
    resync = None
    def reconcile(self, counter):
        pass

assert not settings.USE_TZ
if connection.vendor == "mysql":
    with connection.cursor() as cursor:
        cursor.execute("SELECT NOW() > UTC_TIMESTAMP() + INTERVAL 5 HOUR")
        print("the session is ahead", cursor.fetchone()[0])
for known in registry.all_reconcilers():
    registry.unregister(type(known))

with InlineRunner(Patient) as runner:
    key = str(Counter.objects.create().pk)
    runner.run()
    enqueue(Patient, key, delay=timedelta(hours=1))
    print("at once", runner.run())
    runner.advance(minutes=50)
    print("after 50 minutes", steps.claim(registry.get(Patient), key, using="default"))
    runner.advance(minutes=20)
    held = steps.claim(registry.get(Patient), key, using="default")
    print("after an hour", held is not None)
    print("while it is held", steps.claim(registry.get(Patient), key, using="default"))
    runner.advance(minutes=9)
    (counts,) = reports.counts("default")
    print("running", counts.running, "due", counts.due)
    runner.advance(minutes=2)
    (counts,) = reports.counts("default")
    print("running", counts.running, "due", counts.due, "for", counts.oldest_due < 120)
    print("its lease ended", runner.run() == [("Patient", key, "done")])
    print("swept a moment ago", reports.last_sweep("default") < 120)
"""


@pytest.mark.django_db(transaction=True)
def test_delays_leases_and_reports_are_right_without_time_zones(plain_processes: Processes, tmp_path: Any) -> None:
    environment = {**databases_environment(tmp_path), "DJANGO_SETTINGS_MODULE": "tests.kit.local_time_settings"}

    ran = plain_processes.python(
        "manage.py", "shell", "--no-imports", "--command", SCRIPT, env={**environment, "PYTHONWARNINGS": "error"}
    )

    assert ran.wait(timeout=120) == 0, ran.output
    said = [line for line in ran.output.splitlines() if " INFO " not in line]
    assert said == [
        *(["the session is ahead 1"] if connection.vendor == "mysql" else []),
        "at once []",
        "after 50 minutes None",
        "after an hour True",
        "while it is held None",
        "running 1 due 0",
        "running 0 due 1 for True",
        "its lease ended True",
        "swept a moment ago True",
    ]

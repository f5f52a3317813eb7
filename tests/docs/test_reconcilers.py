"""The code blocks of the how-tos about reconcilers and about production, in projects of their own."""

from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.projects import ROOT, SETTINGS, Project
from tests.kit.processes import Processes

pytest.importorskip("celery")

HOW_TO = ROOT / "docs" / "how-to"

CLOUD = """
class Cloud:
    def ensure_load_balancer(self, name):
        return f"{name}.example.com"
    def remove_load_balancer(self, name):
        pass

cloud = Cloud()
"""


def test_the_reconcilers_of_the_how_to_pass_their_tests_and_do_what_it_says(
    tmp_path: Path, plain_processes: Processes
) -> None:
    page = blocks.read(HOW_TO / "reconcilers.md")
    project = Project(tmp_path, page, plain_processes, {"shop/cloud.py": CLOUD})
    project.migrate()

    tested = project.run("-m", "django", "test", "shop")
    printed = project.prints(page.script)

    assert "Ran 5 tests" in tested
    assert printed == page.prints


PRODUCTION = """
from shop.settings import *
CELERY_BROKER_TRANSPORT = None
CELERY_BROKER_TRANSPORT_OPTIONS = {}
"""

SCRIPT = """
import os
os.environ.pop("CELERY_BROKER_URL")
from celery import current_app
from shop.metrics import runs
from shop.models import Deployment
from reconcilers.controller import turn
from reconcilers import tasks
print(current_app.main, sorted(current_app.conf.beat_schedule), current_app.conf.broker_url)
print(sorted(current_app.amqp.queues), tasks._route("Rollout"))
print(turn("Rollout", Deployment.objects.create(name="cart").pk), dict(runs))
"""

RECONCILER = """
from reconcilers import Reconciler, register
from shop.models import Deployment

@register
class Rollout(Reconciler):
    model = Deployment
    queue = "slow"
    def reconcile(self, deployment):
        pass
"""


def test_the_settings_for_production_make_the_project_that_it_describes(
    tmp_path: Path, plain_processes: Processes
) -> None:
    page = blocks.read(HOW_TO / "production.md")
    more = {
        "shop/models.py": blocks.read(HOW_TO / "reconcilers.md").files["shop/models.py"],
        "shop/reconcilers.py": RECONCILER,
        "shop_settings.py": SETTINGS.format(database=str(tmp_path / "shop.sqlite3")) + PRODUCTION,
    }
    project = Project(tmp_path, page, plain_processes, more)
    project.migrate()

    printed = project.prints(SCRIPT)

    assert printed == [
        "shop ['reconcilers.sweep'] amqp://shop:secret@rabbitmq:5672/shop",
        "['celery', 'slow'] {'queue': 'slow'}",
        "done {('Rollout', 'done'): 1}",
    ]

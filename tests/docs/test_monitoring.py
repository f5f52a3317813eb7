"""The how-to about monitoring: its metrics count, its commands are there, its figures are the measured ones."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.docs import blocks
from tests.docs.projects import ROOT, Project
from tests.kit.processes import Processes

PAGE = ROOT / "docs" / "how-to" / "monitoring.md"

MODELS = """
from django.db import models
from occ.models import OptimisticLockModel

class Product(OptimisticLockModel):
    stock = models.IntegerField(default=0)
"""

RECONCILERS = """
from reconcilers import Reconciler, register
from shop.models import Product

@register
class Restock(Reconciler):
    model = Product

    def reconcile(self, product):
        product.stock = max(product.stock, 5)
"""

# Two accepted writes (one by the reconciler), one refused, one run.
WORK = """
import occ
from reconcilers.controller import turn
from shop.models import Product

stale = Product.objects.create()
Product.objects.get(pk=stale.pk).save()
try:
    stale.save()
except occ.Conflict:
    turn("Restock", stale.pk)
"""

PROMETHEUS = f"""
from prometheus_client import REGISTRY
from shop import metrics

metrics.connect()
{WORK}
for name, labels in (
    ("occ_writes_total", {{"model": "shop.Product"}}),
    ("occ_conflicts_total", {{"model": "shop.Product", "operation": "save"}}),
    ("reconcile_seconds_count", {{"reconciler": "Restock", "outcome": "done"}}),
):
    print(name, REGISTRY.get_sample_value(name, labels))
"""

OPENTELEMETRY = f"""
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
api.set_meter_provider(MeterProvider(metric_readers=[reader]))
from shop import telemetry

telemetry.connect()
{WORK}
for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics:
    for metric in scope.metrics:
        for point in metric.data.data_points:
            print(metric.name, getattr(point, "value", None) or point.count, sorted(point.attributes.items()))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One project for all: each test runs a process of its own, and none looks at what is stored."""
    processes = Processes(tmp_path_factory.mktemp("processes"))
    more = {"shop/models.py": MODELS, "shop/reconcilers.py": RECONCILERS}
    project = Project(tmp_path_factory.mktemp("project"), blocks.read(PAGE), processes, more)
    project.migrate()
    yield project
    processes.close()


def test_the_prometheus_metrics_count(project: Project) -> None:
    pytest.importorskip("prometheus_client")

    assert project.prints(PROMETHEUS) == [
        "occ_writes_total 2.0",
        "occ_conflicts_total 1.0",
        "reconcile_seconds_count 1.0",
    ]


def test_the_opentelemetry_instruments_record(project: Project) -> None:
    pytest.importorskip("opentelemetry.sdk")

    assert project.prints(OPENTELEMETRY) == [
        "occ.conflicts 1 [('model', 'shop.Product'), ('operation', 'save')]",
        "reconcile.duration 1 [('outcome', 'done'), ('reconciler', 'Restock')]",
    ]


def test_the_commands_that_it_names_run(project: Project) -> None:
    commands = re.findall(r"^\$ manage\.py (.+?)(?: +#.*)?$", PAGE.read_text(), re.MULTILINE)

    outputs = [
        project.run("-m", "django", *command.split()) for command in commands if not command.startswith("workqueue")
    ]

    assert commands == [
        "contention",
        "contention plan --writers 10000 --keys 200 --window 50ms --rate 2/s",
        "workqueue --check",
        "contention --check",
    ]
    planned = outputs[1].splitlines()[:7]
    assert "\n".join(planned) in PAGE.read_text()


def test_its_error_of_the_plan_is_the_measured_one() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "plan.json").read_text())

    told = re.search(r"differed by ([\d.]+) points on average\s+and ([\d.]+) at most", PAGE.read_text())

    assert told is not None
    assert [float(number) for number in told.groups()] == [measured["mean_error"], measured["largest_error"]]

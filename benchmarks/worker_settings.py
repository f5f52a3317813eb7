"""Settings of the worker of ``benchmarks.queue``: the tests' models, on the database of the benchmark."""

from tests.kit.worker_settings import *  # noqa: F403
from tests.kit.worker_settings import INSTALLED_APPS, LOGGING

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks.workload"]
LOGGING["loggers"]["reconcilers"] = {"level": "WARNING"}

"""What a worker without reconcilers would do for the same message."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task
from celery.signals import task_postrun

from benchmarks.workload.statements import bare_run

DONE = "OCC_BENCHMARK_DONE"  # a file that grows by a byte at the end of each task


@shared_task(name="benchmarks.bare", ignore_result=True)
def bare(reconciler: str, key: str, using: str = "default") -> None:
    """Do the three statements."""
    bare_run(reconciler, key, using)


@task_postrun.connect
def count(**kwargs: Any) -> None:
    """Let the benchmark see that a task has ended."""
    if path := os.environ.get(DONE):
        with open(path, "ab", buffering=0) as file:
            file.write(b".")

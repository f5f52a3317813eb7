"""The reconcilers of the fault tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from reconcilers import Reconciler, register
from tests.faults.workload.runs import recorded
from tests.library.models import Author, Book, Category, Counter

# What the process that runs Targeted and TargetedOutside wants their rows to be; none: as they are.
TARGET = "OCC_TEST_TARGET"

# A folder: a process that has it waits in the middle of a run until there is a file "go".
PAUSE = "OCC_TEST_PAUSE"


def _pause_if_told_to() -> None:
    if folder := os.environ.get(PAUSE):
        Path(folder, "reached").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.01)


@register
class Mirror(Reconciler):
    """Copies a book's stock into its details: whether it has seen the newest write can be read off the row."""

    model = Book

    def reconcile(self, book: Book) -> None:
        with recorded("Mirror", book.pk):
            book.details = {**book.details, "stock": book.stock}


@register
class Poison(Reconciler):
    """Kills its worker when it meets an author of that name."""

    model = Author
    max_attempts = 3

    def reconcile(self, author: Author) -> None:
        with recorded("Poison", author.pk):
            if author.name == "poison":
                os.kill(os.getpid(), signal.SIGKILL)
            if author.name.startswith("slow"):
                time.sleep(0.05)


@register
class Targeted(Reconciler):
    """Writes what its process was told to: two processes that disagree show whose write landed."""

    model = Counter

    def reconcile(self, counter: Counter) -> None:
        with recorded("Targeted", counter.pk):
            _pause_if_told_to()
            counter.value = int(os.environ.get(TARGET, counter.value))


@register
class TargetedOutside(Reconciler):
    """The same without a transaction around it."""

    model = Category
    atomic = False

    def reconcile(self, category: Category) -> None:
        with recorded("TargetedOutside", category.pk):
            _pause_if_told_to()
            category.name = os.environ.get(TARGET, category.name)

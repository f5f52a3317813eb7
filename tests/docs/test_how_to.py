"""The code blocks of the how-tos about models, REST and tests, run in a project of their own."""

from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.projects import ROOT, Project
from tests.kit.processes import Processes

HOW_TO = ROOT / "docs" / "how-to"

MODELS = """
from django.db import models
from occ.models import OptimisticLockModel

class Product(OptimisticLockModel):
    title = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)
"""


@pytest.mark.parametrize("name", ["models.md", "field-ownership.md"])
def test_the_examples_of_a_page_run_and_print_what_it_says(
    name: str, tmp_path: Path, plain_processes: Processes
) -> None:
    page = blocks.read(HOW_TO / name)
    project = Project(tmp_path, page, plain_processes)
    project.migrate()

    printed = project.prints(page.script)

    assert printed == page.prints


def test_the_examples_about_rest_run_and_print_what_it_says(tmp_path: Path, plain_processes: Processes) -> None:
    pytest.importorskip("rest_framework")
    page = blocks.read(HOW_TO / "rest.md")
    project = Project(tmp_path, page, plain_processes)
    project.migrate()

    printed = project.prints(page.script)

    assert printed == page.prints


def test_the_tests_of_the_page_about_tests_pass(tmp_path: Path, plain_processes: Processes) -> None:
    pytest.importorskip("pytest_django")
    page = blocks.read(HOW_TO / "testing.md")
    project = Project(tmp_path, page, plain_processes, {"shop/models.py": MODELS, "pytest.ini": "[pytest]\n"})
    project.migrate()

    output = project.run("-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path))

    assert "7 passed" in output

"""The code blocks of the how-to about the admin, in a project of their own."""

import sys
from pathlib import Path

from tests.docs import blocks
from tests.kit.processes import Processes

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "admin.md"

MODELS = """
from django.db import models
from occ.models import OptimisticLockModel

class Book(OptimisticLockModel):
    title = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)
    price = models.IntegerField(default=0)
    currency = models.CharField(max_length=3)

class Chapter(OptimisticLockModel):
    book = models.ForeignKey(Book, models.CASCADE)
    title = models.CharField(max_length=100)
"""

SETTINGS = """
from project.settings import *

INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "project.deployments"] + ["shop"]
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""

# The later blocks are variants of the first: register them in its place, so that they are checked as well.
VARIANTS = """
from django.contrib import admin
from django.urls import path
import shop.forms
from shop.admin import Book, ExportingBookAdmin, MergingBookAdmin

for name, variant in (("merging", MergingBookAdmin), ("exporting", ExportingBookAdmin)):
    globals()[name] = admin.AdminSite(name=name)
    globals()[name].register(Book, variant)
urlpatterns = [path("admin/", admin.site.urls)]
"""


def test_its_examples_pass_the_checks(tmp_path: Path, plain_processes: Processes) -> None:
    files = blocks.read(HOW_TO).files
    (tmp_path / "shop").mkdir()
    for name, text in {
        **files,
        "shop/__init__.py": "",
        "shop/models.py": MODELS,
        "shop/urls.py": VARIANTS,
        "shop_settings.py": SETTINGS,
    }.items():
        (tmp_path / name).write_text(text)

    done = plain_processes.start(
        sys.executable,
        *("-m", "django", "check", "--fail-level", "WARNING"),
        env={
            "DJANGO_SETTINGS_MODULE": "shop_settings",
            "DATABASE_URL": "",
            "OCC_RUN_DIR": str(tmp_path / "run"),
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "PYTHONWARNINGS": "error",
        },
    )

    assert done.wait() == 0, done.output
    assert sorted(files) == ["shop/admin.py", "shop/forms.py"]


def test_its_pictures_are_there() -> None:
    named = [line.split("](")[1].rstrip(")") for line in HOW_TO.read_text().splitlines() if line.startswith("![")]

    assert [(HOW_TO.parent / name).exists() for name in named] == [True] * 2

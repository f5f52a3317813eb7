"""A project made of the code blocks of a page, in a folder and a database of its own."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.blocks import Blocks
from tests.kit.processes import Processes

ROOT = Path(__file__).resolve().parents[2]

LOGGED = re.compile(r"\d{4}-\d\d-\d\d .* (INFO|WARNING) ")

SETTINGS = """
from project.settings import *

INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "project.deployments"] + ["shop"]
DATABASES["default"]["NAME"] = {database!r}
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""


class Project:
    """Runs commands of a project whose app ``shop`` has the page's files."""

    def __init__(self, folder: Path, page: Blocks, processes: Processes, more: Mapping[str, str] | None = None) -> None:
        self._processes = processes
        self._environment = {
            "DJANGO_SETTINGS_MODULE": "shop_settings",
            "DATABASE_URL": "",
            "CELERY_BROKER_URL": "",
            "OCC_RUN_DIR": str(folder / "run"),
            "PYTHONPATH": f"{folder}:{ROOT}",
            "PYTHONWARNINGS": "error",
        }
        files = {
            "shop/__init__.py": "",
            "shop/urls.py": "urlpatterns = []\n",
            "shop/migrations/__init__.py": "",
            "shop_settings.py": SETTINGS.format(database=str(folder / "shop.sqlite3")),
            **page.files,
            **(more or {}),
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def migrate(self) -> None:
        """Check the project, make its migrations and its tables."""
        for command in (("check", "--fail-level", "WARNING"), ("makemigrations", "shop"), ("migrate",)):
            self.run("-m", "django", *command)

    def prints(self, script: str) -> list[str]:
        """Run ``script`` in the project's shell and return what it printed."""
        output = self.run("-m", "django", "shell", "--no-imports", "--command", script)
        return [line for line in output.splitlines() if not LOGGED.match(line)]

    def run(self, *argv: str) -> str:
        """Run Python with ``argv``, which must succeed, and return its output."""
        done = self._processes.start(sys.executable, *argv, env=self._environment)
        assert done.wait(timeout=120) == 0, done.output
        return done.output

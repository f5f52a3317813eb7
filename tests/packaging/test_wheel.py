"""The wheel works in an empty environment, where Django is all there is, and says what it misses."""

import venv
from pathlib import Path

import pytest

from tests.packaging.conftest import run

pytestmark = pytest.mark.xdist_group("distributions")

MODELS = """
from django.db import models
from occ.models import OptimisticLockModel

class Deployment(OptimisticLockModel):
    name = models.SlugField(unique=True)
    replicas = models.PositiveIntegerField(default=1)
    ready = models.PositiveIntegerField(default=0)
"""

RECONCILERS = """
from reconcilers import Reconciler, register
from shop.models import Deployment

@register
class Readiness(Reconciler):
    model = Deployment
    def reconcile(self, deployment):
        deployment.ready = deployment.replicas
"""

SCRIPT = """
import importlib.util, sys
import occ
from reconcilers.controller import turn
from shop.models import Deployment
from shop.reconcilers import Readiness

absent = [name for name in ("rest_framework", "celery", "kombu", "httpx") if importlib.util.find_spec(name) is None]
admin = [name for name in sys.modules if name.startswith("django.contrib.admin")]

mine = Deployment.objects.create(name="cart")
theirs = Deployment.objects.get(pk=mine.pk)
theirs.save()
try:
    mine.save()
except occ.Conflict as conflict:
    refused = (conflict.expected, conflict.actual, conflict.reason)

def scale(deployment):
    deployment.replicas += 2

Deployment.objects.mutate(mine.pk, scale)
turn(Readiness, mine.pk)
print(absent, admin, refused, list(Deployment.objects.values_list("replicas", "ready")))
"""


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new virtual environment with the wheel, and so Django, in it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return python


def test_it_works_in_a_new_project_with_nothing_but_django(empty_environment: Path, tmp_path: Path) -> None:
    python = str(empty_environment)
    run(python, "-m", "django", "startproject", "site_", str(tmp_path))
    run(python, "manage.py", "startapp", "shop", cwd=tmp_path)
    (tmp_path / "shop" / "models.py").write_text(MODELS)
    (tmp_path / "shop" / "reconcilers.py").write_text(RECONCILERS)
    (tmp_path / "shop" / "admin.py").unlink()
    settings = tmp_path / "site_" / "settings.py"
    text = settings.read_text().replace('"django.contrib.admin",', "").replace("'django.contrib.admin',", "")
    settings.write_text(text + "\nINSTALLED_APPS += ['occ', 'reconcilers', 'shop']\n")
    (tmp_path / "site_" / "urls.py").write_text("urlpatterns = []\n")

    run(python, "manage.py", "check", "--fail-level", "WARNING", cwd=tmp_path)
    run(python, "manage.py", "makemigrations", "shop", cwd=tmp_path)
    run(python, "manage.py", "makemigrations", "--check", "--dry-run", cwd=tmp_path)
    run(python, "manage.py", "migrate", cwd=tmp_path)
    printed = run(python, "-W", "error", "manage.py", "shell", "--command", SCRIPT, cwd=tmp_path)

    assert printed.splitlines()[-1] == ("['rest_framework', 'celery', 'kombu', 'httpx'] [] (1, 2, 'changed') [(3, 3)]")


@pytest.mark.parametrize(
    ("module", "error"),
    [
        (
            "occ.rest_framework",
            "ImportError: occ.rest_framework needs Django REST framework: pip install 'django-occ[drf]'",
        ),
        ("occ.client", "ImportError: occ.client needs httpx: pip install 'django-occ[client]'"),
        (
            "reconcilers.tasks",
            "ImportError: reconcilers.tasks needs Celery: pip install 'django-occ[celery]', "
            "or work the queue with runreconcilers",
        ),
    ],
)
def test_what_needs_an_extra_says_which(empty_environment: Path, module: str, error: str, tmp_path: Path) -> None:
    script = f"""
import django, importlib
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "occ", "reconcilers"])
django.setup()
try:
    importlib.import_module({module!r})
except ImportError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""

    printed = run(str(empty_environment), "-c", script, cwd=tmp_path)

    assert printed.strip() == error


def test_the_names_that_need_no_extra_import_without_any(empty_environment: Path, tmp_path: Path) -> None:
    run(
        str(empty_environment),
        "-c",
        "import occ, reconcilers; occ.retry_on_conflict, reconcilers.register",
        cwd=tmp_path,
    )

"""Settings of one run of Django's test suite; run.py has converted the models by the time they are read."""

import os
from urllib.parse import urlsplit

import django

MODE = os.environ["DJANGO_SUITE_MODE"]
ENGINES = {"sqlite": "sqlite3", "postgres": "postgresql", "mysql": "mysql"}


def _database(alias: str) -> dict[str, object]:
    url = urlsplit(os.environ.get("DATABASE_URL") or "sqlite:")
    settings: dict[str, object] = {"ENGINE": f"django.db.backends.{ENGINES[url.scheme]}"}
    if url.scheme != "sqlite":
        name = f"django_suite_{MODE}_{alias}"
        settings |= {"NAME": url.path[1:], "USER": url.username or "", "PASSWORD": url.password or ""}
        settings |= {"HOST": url.hostname or "", "PORT": url.port or "", "TEST": {"NAME": name}}
    return settings


INSTALLED_APPS = [  # runtests.py's ALWAYS_INSTALLED_APPS
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sites",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.staticfiles",
]
DATABASES = {alias: _database(alias) for alias in ("default", "other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = False
if django.VERSION < (6, 0):
    DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
TEST_RUNNER = "tests.django_suite.recording.RecordingRunner"

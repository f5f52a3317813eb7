"""Settings of the reference project, each of them overridable by an environment variable.

========================  ==============================================================================
DATABASE_URL              sqlite:///PATH (default: a file in the run directory), postgres://, mysql://
CELERY_BROKER_URL         filesystem:// (default: in the run directory), amqp://, redis://
OCC_RUN_DIR               where the embedded database, broker and secret key live; default ``.run``
OCC_SECRET_KEY            Django's SECRET_KEY; default: made once and kept in the run directory
OCC_DEBUG                 1 turns Django's DEBUG on
OCC_ALLOWED_HOSTS         comma-separated; default: this machine only
OCC_LEASE_SECONDS         how long a reconciler's claim outlives a worker that died
OCC_SWEEP_SECONDS         how often due work is looked for
OCC_NUDGE_AGAIN_SECONDS   after how long a message that no worker acted upon is sent again
OCC_QUEUE                 the queue on the broker; default ``celery``
========================  ==============================================================================
"""

import importlib.util
import os
import secrets
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from project import servers

BASE_DIR = Path(__file__).resolve().parent.parent
RUN_DIR = Path(os.environ.get("OCC_RUN_DIR") or BASE_DIR / ".run").resolve()


def _secret_key() -> str:
    """Return the key that every process of one run directory shares; the first of them makes it."""
    path = RUN_DIR / "secret_key"
    try:
        if not path.exists():
            _make_secret_key(path)
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The run directory {RUN_DIR} cannot be written to ({error.strerror}): set OCC_RUN_DIR to one that can."
        ) from error


def _make_secret_key(path: Path) -> None:
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"secret_key.{os.getpid()}")
    aside.write_text(secrets.token_urlsafe(50))
    aside.chmod(0o600)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()


SECRET_KEY = os.environ.get("OCC_SECRET_KEY") or _secret_key()
DEBUG = os.environ.get("OCC_DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("OCC_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "occ",
    "occ.contention",
    "reconcilers",
    "project.deployments",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES: dict[str, dict[str, Any]] = {"default": servers.database(os.environ.get("DATABASE_URL", ""), RUN_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

# WhiteNoise serves straight from the apps' static folders, so that no collectstatic has to run before the site.
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.BasicAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 100,
}
# The schema of the API is for those who have drf-spectacular; the site itself does without.
if importlib.util.find_spec("drf_spectacular"):
    REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] = "occ.rest_framework.openapi.AutoSchema"

OCC: dict[str, Any] = {}
RECONCILERS: dict[str, Any] = {
    "SWEEP_SECONDS": float(os.environ.get("OCC_SWEEP_SECONDS", "1")),
    "LEASE_SECONDS": float(os.environ.get("OCC_LEASE_SECONDS", "10")),
    "NUDGE_AGAIN_SECONDS": float(os.environ.get("OCC_NUDGE_AGAIN_SECONDS", "15")),
}

_broker = servers.broker(os.environ.get("CELERY_BROKER_URL", ""), RUN_DIR)
CELERY_BROKER_URL = _broker["url"]
CELERY_BROKER_TRANSPORT = _broker["transport"]
CELERY_BROKER_TRANSPORT_OPTIONS = _broker["transport_options"]
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("OCC_QUEUE", "celery")
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
# A worker keeps one spare message per process: a nudge waiting behind a long run could be taken by another worker.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Every remote-control queue of the filesystem broker is one more folder scan, and outlives a killed worker.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = CELERY_BROKER_TRANSPORT is None
CELERY_BEAT_SCHEDULE_FILENAME = str(RUN_DIR / "celerybeat-schedule")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {"occ": {"level": "INFO"}, "reconcilers": {"level": "INFO"}, "project": {"level": "INFO"}},
}

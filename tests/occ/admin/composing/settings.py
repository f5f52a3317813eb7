"""The tests' settings with the apps that the admin mixin is composed with."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as TEST_APPS
from tests.settings import MIDDLEWARE as TEST_MIDDLEWARE

INSTALLED_APPS = [
    *TEST_APPS,
    "guardian",
    "import_export",
    "reversion",
    "simple_history",
    "tests.occ.admin.composing",
]
MIDDLEWARE = [*TEST_MIDDLEWARE, "simple_history.middleware.HistoryRequestMiddleware"]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
SILENCED_SYSTEM_CHECKS = ["guardian.W001"]

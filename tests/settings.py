"""The reference project's settings plus the apps that only tests need."""

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS as PROJECT_APPS

INSTALLED_APPS = [*PROJECT_APPS, "tests.library", "tests.triggers"]

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

"""The app: finds every installed app's ``reconcilers.py`` and connects what enqueues."""

from __future__ import annotations

import importlib.util
from typing import Any

from django.apps import AppConfig
from django.core import checks as django_checks
from django.utils.module_loading import autodiscover_modules


class ReconcilersConfig(AppConfig):
    """Level-triggered controllers on a work queue in the database."""

    name = "reconcilers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from reconcilers import checks, sources
        from reconcilers.workqueue import nudges

        autodiscover_modules("reconcilers")
        sources.connect()
        checks.connect()
        if importlib.util.find_spec("celery") is not None:
            nudges.set_sender(_send_through_celery, _count_in_broker)
            django_checks.register(_check_celery_app)


# Celery is imported when it is first needed: not every process that loads the apps sends a nudge.


def _send_through_celery(keys: list[tuple[str, str]] | None, using: str) -> None:
    from reconcilers import tasks

    tasks.send(keys, using)


def _count_in_broker(queue: str | None) -> int:
    from reconcilers import tasks

    return tasks.count_waiting(queue)


def _check_celery_app(app_configs: Any, **kwargs: Any) -> list[django_checks.CheckMessage]:
    from reconcilers import tasks

    return tasks.check_project_app(app_configs, **kwargs)

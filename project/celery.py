"""The Celery app: ``celery -A project worker`` and ``celery -A project beat``."""

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_configure.connect
def _schedule(sender: Celery, **kwargs: Any) -> None:
    # Imported here: this module is loaded by the settings themselves, before they can be read.
    from reconcilers import celery_beat_schedule

    sender.conf.beat_schedule = celery_beat_schedule()

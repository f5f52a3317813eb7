"""The app: starts counting, and sees to it that what is counted gets stored."""

from __future__ import annotations

import atexit
import os
from typing import Any

from django.apps import AppConfig, apps
from django.core import checks
from django.utils.translation import gettext_lazy as _


class ContentionConfig(AppConfig):
    """Counts writes and conflicts per model, reconciler and field manager."""

    name = "occ.contention"
    label = "occ_contention"
    verbose_name = _("Optimistic concurrency")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from occ.contention.counting import count_conflict, counters
        from occ.contention.flushing import flusher
        from occ.signals import conflict_detected, write_observers

        if counters.count_writes not in write_observers:
            write_observers.append(counters.count_writes)
        conflict_detected.connect(count_conflict, dispatch_uid="occ.contention")
        counters.on_first = flusher.start
        atexit.register(flusher.flush_at_exit)
        # A forked child has the counts of its parent, which stores them itself, and none of its threads.
        os.register_at_fork(after_in_child=flusher.begin_anew)
        checks.register(_check_installation)


def _check_installation(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    if apps.is_installed("occ"):
        return []
    return [
        checks.Error(
            "The app 'occ.contention' is installed, but 'occ' is not.",
            hint="Add 'occ' to INSTALLED_APPS: its templates and static files make the page in the admin.",
            id="occ.E050",
        )
    ]

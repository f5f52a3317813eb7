"""The Django app ``occ``: templates, static files, system checks, and version triggers that migrations keep right."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import pre_migrate


class OccConfig(AppConfig):
    name = "occ"
    verbose_name = "Optimistic concurrency"

    def ready(self) -> None:
        from occ.checks import check_cors_headers, check_settings, check_version_triggers
        from occ.operations import keep_triggers

        register(check_settings)
        register(check_version_triggers, Tags.database)
        register(check_cors_headers, Tags.compatibility)
        pre_migrate.connect(keep_triggers, dispatch_uid="occ.operations.keep_triggers")

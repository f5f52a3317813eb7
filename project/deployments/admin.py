"""Both fleets and the journal in the admin."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from occ.admin import OptimisticLockAdminMixin
from project.deployments.models import Deployment, JournalEntry, OwnedDeployment, UnguardedDeployment, Workload

if TYPE_CHECKING:
    _WorkloadAdmin = admin.ModelAdmin[Workload]
    _JournalEntryAdmin = admin.ModelAdmin[JournalEntry]
else:
    _WorkloadAdmin = _JournalEntryAdmin = admin.ModelAdmin

STATUS = ["template_hash", "updated_replicas", "ready_replicas", "revision", "scalings", "stepped_at"]


class WorkloadAdmin(_WorkloadAdmin):
    """What people may change of a deployment, and what the controllers made of it."""

    list_display = ["name", "replicas", "updated_replicas", "ready_replicas", "observed_load", "paused", "image"]
    list_filter = ["paused"]
    search_fields = ["name", "image"]
    readonly_fields = STATUS
    fieldsets = [
        (None, {"fields": ["name", "image", "template", "paused", "notes", "annotations"]}),
        ("Replicas", {"fields": ["replicas", "min_replicas", "max_replicas", "target_load", "observed_load"]}),
        ("Status", {"fields": (*STATUS,)}),
    ]


@admin.register(Deployment)
class DeploymentAdmin(OptimisticLockAdminMixin, WorkloadAdmin):
    """A guarded deployment."""

    list_display = ["name", "version", *WorkloadAdmin.list_display[1:]]


@admin.register(OwnedDeployment)
class OwnedDeploymentAdmin(DeploymentAdmin):
    """A deployment whose fields tell who manages them."""


@admin.register(UnguardedDeployment)
class UnguardedDeploymentAdmin(WorkloadAdmin):
    """The copy on which the demo's first act loses updates."""


@admin.register(JournalEntry)
class JournalEntryAdmin(_JournalEntryAdmin):
    """The journal, to read."""

    list_display = ["at", "fleet", "deployment_pk", "writer", "version", "counter"]
    list_filter = ["fleet", "writer"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

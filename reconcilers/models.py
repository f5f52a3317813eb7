"""The tables: work items, and when the periodic jobs last ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from reconcilers.reconciler import KEY_LENGTH


class Cause(models.IntegerChoices):
    """Why an item is due; lower numbers are served first."""

    CHANGE = 0, "a change"
    OWN_WRITE = 1, "its own write"
    CLOCK = 2, "resync or scan"


if TYPE_CHECKING:
    CharField = models.CharField[str, str]
else:
    CharField = models.CharField


class ExactCharField(CharField):
    """Text that is compared letter by letter on every database; MySQL's default collation would take A for a."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        parameters: dict[str, Any] = super().db_parameters(connection)
        if connection.vendor == "mysql":
            parameters["collation"] = "utf8mb4_bin"
        return parameters


class WorkItem(models.Model):
    """One key of one reconciler, and all that is known about its work.

    Written by the guarded statements of ``reconcilers.workqueue`` alone; ``save()`` one by hand and a concurrent
    worker's bookkeeping is lost. All times are the database's own.
    """

    reconciler = ExactCharField(max_length=100)
    key = ExactCharField(max_length=KEY_LENGTH)

    # Another number at every request, so that a run can tell at its end whether it was asked for again meanwhile.
    request_token = models.BigIntegerField()
    cause = models.PositiveSmallIntegerField(choices=Cause.choices, default=Cause.CHANGE)

    # When it shall run: NULL while it is idle or parked, and while it runs unless it was asked for again.
    due_at = models.DateTimeField(null=True)
    # No request can bring it forward past this: the backoff of a failing key.
    not_before = models.DateTimeField(null=True)
    # Runs since the last success, counted when they start, so that a run that kills its worker counts.
    attempts = models.PositiveIntegerField(default=0)

    lease_token = models.BigIntegerField(default=0)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    lease_until = models.DateTimeField(null=True, db_index=True)

    observed_version = models.BigIntegerField(null=True)
    parked_at = models.DateTimeField(null=True, db_index=True)
    last_error = models.TextField(blank=True, default="")
    last_success_at = models.DateTimeField(null=True)
    nudged_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["reconciler", "key"], name="reconcilers_one_item_per_key")]
        # With the cause between, those who wait for a change are found without reading those who wait for a resync.
        indexes = [models.Index(fields=["reconciler", "cause", "due_at"], name="reconcilers_due")]
        verbose_name = "work item"

    def __str__(self) -> str:
        return f"{self.reconciler} {self.key}"


class Heartbeat(models.Model):
    """A periodic job: when it last ran, when it is wanted next, how far it came (a part of it and a key)."""

    name = ExactCharField(max_length=150, unique=True)
    beat_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    cursor = models.CharField(max_length=KEY_LENGTH + 45, blank=True, default="")

    def __str__(self) -> str:
        return self.name

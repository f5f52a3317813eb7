"""Deployments, the rows that everybody writes at once, and the journal of what was accepted.

``Deployment`` is guarded by its version, ``OwnedDeployment`` also by the ownership of its fields; a
``QueuedDeployment`` has a single writer, which others ask. ``UnguardedDeployment`` has the same columns on a plain
``models.Model`` and loses updates in the demo's first act.
"""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone

from occ.models import OptimisticLockModel
from occ.ownership import FieldOwnershipModel

# PostgreSQL's jsonb takes neither; UTF-8 has no lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MAX_DEPTH = 30  # MariaDB's JSON takes 31 levels, SQLite's 2,000


def require_object(value: Any) -> None:
    """Refuse JSON that is no object, and what not every database keeps in one: some characters, too many levels."""
    if not isinstance(value, dict):
        raise ValidationError("Give a JSON object, such as {}.", code="not_an_object")
    todo: list[tuple[int, Any]] = [(1, value)]
    while todo:
        depth, part = todo.pop()
        if isinstance(part, dict | list):
            if depth > _MAX_DEPTH:
                raise ValidationError(f"Nest it {_MAX_DEPTH} levels deep at most.", code="unstorable")
            inside = [*part, *part.values()] if isinstance(part, dict) else part
            todo += [(depth + 1, each) for each in inside]
        elif isinstance(part, str) and _UNSTORABLE.search(part):
            raise ValidationError("Leave out null characters and lone surrogates.", code="unstorable")


class Workload(models.Model):
    """What a service should be (spec), written by people and clients, and what it is (status), by controllers."""

    name = models.SlugField(unique=True)
    image = models.CharField(max_length=200, help_text="Repository and tag of the container image.")
    template = models.JSONField(
        default=dict,
        blank=True,
        validators=[require_object],
        help_text="Environment, ports and resources of a replica.",
    )
    replicas = models.PositiveIntegerField(default=1, help_text="How many should run; 0 switches the service off.")
    min_replicas = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    max_replicas = models.PositiveIntegerField(default=10, validators=[MinValueValidator(1)])
    target_load = models.PositiveIntegerField(
        default=100, validators=[MinValueValidator(1)], help_text="Requests per second that one replica should get."
    )
    paused = models.BooleanField(default=False, help_text="Controllers leave a paused deployment alone.")
    notes = models.CharField(max_length=200, blank=True, help_text="For whoever is on call.")
    annotations = models.JSONField(
        default=dict, blank=True, validators=[require_object], help_text="Free keys, as programs leave them."
    )

    observed_load = models.PositiveIntegerField(default=0, help_text="Requests per second of the whole service.")
    template_hash = models.CharField(max_length=64, blank=True, help_text="What is being rolled out.")
    updated_replicas = models.PositiveIntegerField(default=0, help_text="Ready replicas with that template.")
    ready_replicas = models.PositiveIntegerField(default=0, help_text="All ready replicas.")
    revision = models.PositiveIntegerField(default=0, help_text="How many templates have been rolled out.")
    scalings = models.PositiveIntegerField(default=0, help_text="How often the autoscaler changed replicas.")
    stepped_at = models.DateTimeField(null=True, blank=True, help_text="When the rollout last moved.")

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse limits that exclude each other."""
        if self.min_replicas > self.max_replicas:
            raise ValidationError({"max_replicas": "This must not be below min_replicas."})


class Deployment(OptimisticLockModel, Workload):
    """A service, safe to write from everywhere."""

    class Meta(OptimisticLockModel.Meta, Workload.Meta):
        pass


class OwnedDeployment(FieldOwnershipModel, Workload):
    """A service whose controllers own their fields, and so do not conflict at all."""

    class Meta(FieldOwnershipModel.Meta, Workload.Meta):
        pass


class QueuedDeployment(OptimisticLockModel, Workload):
    """A service that only its reconciler writes; controllers leave a ``Request``."""

    class Meta(OptimisticLockModel.Meta, Workload.Meta):
        pass


class Request(models.Model):
    """What a controller wants done to a ``QueuedDeployment``: one of its counters raised by one."""

    deployment_pk = models.BigIntegerField()
    counter = models.CharField(max_length=64)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.counter} of deployment {self.deployment_pk}"


class UnguardedDeployment(Workload):
    """The same service without a version: the last writer wins, and nobody hears of it."""

    class Meta(Workload.Meta):
        pass


class JournalEntry(models.Model):
    """One change of a deployment that was accepted, recorded apart from the deployment itself.

    Comparing the two is how a lost update shows: each entry says which of the row's counters it raised by one.
    """

    class Fleet(models.TextChoices):
        GUARDED = "guarded"
        UNGUARDED = "unguarded"

    fleet = models.CharField(max_length=10, choices=Fleet.choices)
    deployment_pk = models.BigIntegerField()
    writer = models.CharField(max_length=64, help_text="Who changed it.")
    counter = models.CharField(max_length=64, blank=True, help_text="The counter of the row that the change raised.")
    version = models.PositiveBigIntegerField(null=True, blank=True, help_text="The version that it became, if known.")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "journal entries"

    def __str__(self) -> str:
        became = "" if self.version is None else f" (version {self.version})"
        return f"{self.writer}: {self.fleet} deployment {self.deployment_pk}{became}"

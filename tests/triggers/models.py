"""Tables that other programs write too, so that a trigger counts their writes."""

from __future__ import annotations

from django.db import models
from django.db.models import F

from occ.constraints import VersionTrigger
from occ.fields import VersionField
from occ.models import OptimisticLockModel


class Part(OptimisticLockModel):
    """The ordinary case: every write counts."""

    name = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)

    class Meta:
        constraints = [VersionTrigger()]

    def __str__(self) -> str:
        return self.name


class Meter(OptimisticLockModel):
    """Some columns are derived: their writes do not count. Two columns cannot be compared with = on every database."""

    name = models.CharField(max_length=100)
    notes = models.TextField(default="")
    details = models.JSONField(default=dict)
    readings = models.IntegerField(default=0)
    seen_by = models.ForeignKey(Part, models.CASCADE, null=True)
    doubled = models.GeneratedField(expression=F("readings") * 2, output_field=models.IntegerField(), db_persist=True)

    occ_unguarded_fields = ("readings", "seen_by")

    class Meta:
        constraints = [VersionTrigger()]

    def __str__(self) -> str:
        return self.name


class Slot(OptimisticLockModel):
    """Names that need quoting, a version under another name, two keys."""

    pk = models.CompositePrimaryKey("row", "place")
    version = None  # type: ignore[assignment]
    row = models.IntegerField(db_column="group")
    place = models.IntegerField()
    revision = VersionField(db_column="Order")
    content = models.CharField(max_length=100, default="")

    class Meta:
        db_table = "trigger slot's table"
        constraints = [VersionTrigger(name="slot's %(class)s trigger")]

    def __str__(self) -> str:
        return self.content


class Vehicle(OptimisticLockModel):
    """The root of a hierarchy of tables: the trigger is here, where the version is."""

    name = models.CharField(max_length=100)

    class Meta:
        constraints = [VersionTrigger()]

    def __str__(self) -> str:
        return self.name


class Truck(Vehicle):
    tonnes = models.IntegerField(default=0)


class Gate(OptimisticLockModel):
    """Its Meta is somebody else's: a migration adds the trigger."""

    name = models.CharField(max_length=100)
    opened = models.IntegerField(default=0)

    occ_unguarded_fields = ("opened",)

    def __str__(self) -> str:
        return self.name

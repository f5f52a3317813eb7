"""The tables: what was counted, and what collided.

Written by ``occ.contention.flushing`` alone, by statements that add. Times are seconds since 1970 by the clock of the
process that counted, so that they mean the same on every database and under every time zone.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from occ.attribution import MAX_LENGTH

MINUTE = 60
HALF_HOUR = 1800

# For how long buckets of each width are kept, in seconds.
KEPT = {MINUTE: 6 * 3600, HALF_HOUR: 8 * 24 * 3600}

LABEL_LENGTH = 200
FIELDS_LENGTH = 300


class Bucket(models.Model):
    """Writes and conflicts of one writer on one model, in the ``width`` seconds from ``start`` on.

    Everything is counted twice: in a minute, and in a half hour that is kept for longer.
    """

    width = models.PositiveSmallIntegerField()
    start = models.BigIntegerField()
    model = models.CharField(max_length=LABEL_LENGTH)
    reconciler = models.CharField(max_length=100, blank=True)
    manager = models.CharField(max_length=MAX_LENGTH)
    writes = models.BigIntegerField()
    conflicts = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["width", "start", "model", "reconciler", "manager"], name="occ_contention_one_bucket"
            )
        ]
        verbose_name = _("contention")
        verbose_name_plural = _("contention")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.model} at {self.start}"


class Collision(models.Model):
    """What refused writes wanted to change and what others had changed meanwhile, of a sample of the conflicts.

    Field names are joined by commas. Where the base of the refused write is not known (a plain ``save()``), ``theirs``
    is "?" and ``mine`` names all fields that differ.
    """

    digest = models.CharField(max_length=32, unique=True)  # of all but the count
    start = models.BigIntegerField(db_index=True)
    model = models.CharField(max_length=LABEL_LENGTH)
    writer = models.CharField(max_length=MAX_LENGTH)
    mine = models.CharField(max_length=FIELDS_LENGTH, blank=True)
    theirs = models.CharField(max_length=FIELDS_LENGTH, blank=True)
    count = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.model}: {self.writer} wanted {self.mine}, found {self.theirs}"

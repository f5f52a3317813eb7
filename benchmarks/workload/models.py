"""Rows for the writers of ``benchmarks.hot_key``."""

from __future__ import annotations

from django.db import models

from occ.models import OptimisticLockModel
from occ.ownership import FieldOwnershipModel

WIDTH = 32


class Board(FieldOwnershipModel):
    """A row with a column for each of 32 writers."""

    for _number in range(WIDTH):
        locals()[f"f{_number}"] = models.IntegerField(default=0)
    del _number

    def __str__(self) -> str:
        return str(self.pk)


class Account(OptimisticLockModel):
    """A counter that nobody but its reconciler writes."""

    value = models.IntegerField(default=0)

    def __str__(self) -> str:
        return str(self.value)


class Order(models.Model):
    """One more for an account, to be carried out by its reconciler; times are those of ``time.monotonic()``."""

    account_id = models.BigIntegerField()
    writer = models.IntegerField()
    due = models.FloatField()
    done = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.account_id}: {self.done}"

"""A guarded model whose history simple-history keeps."""

from django.db import models
from simple_history.models import HistoricalRecords

from occ.models import OptimisticLockModel


class Article(OptimisticLockModel):
    title = models.CharField(max_length=100)
    price = models.IntegerField(default=0)
    history = HistoricalRecords()

    class Meta:
        app_label = "composing"

    def __str__(self) -> str:
        return self.title

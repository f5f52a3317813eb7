"""The benchmark's row, guarded by django-concurrency."""

from __future__ import annotations

from concurrency.fields import IntegerVersionField
from django.db import models

from tests.library.models import Author


class ConcurrencyBook(models.Model):
    """``PlainBook`` with django-concurrency's version in the place of the plain counter."""

    title = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    notes = models.TextField(blank=True, default="")
    details = models.JSONField(default=dict, blank=True)
    author = models.ForeignKey(Author, models.CASCADE, null=True, blank=True, related_name="+")
    editor = models.ForeignKey(Author, models.SET_NULL, null=True, blank=True, related_name="+")
    updated_at = models.DateTimeField(auto_now=True)
    version = IntegerVersionField()

    def __str__(self) -> str:
        return self.title

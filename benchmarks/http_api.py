"""The views that ``benchmarks.http`` calls: one with the mixin, and the same without it."""

from __future__ import annotations

from django.urls import path
from rest_framework import generics

from occ.rest_framework import OptimisticLockMixin
from tests.library.models import Book
from tests.occ.rest_framework.api import BookSerializer, NestedBookSerializer, Open


class PlainView(Open, generics.RetrieveUpdateAPIView[Book]):
    queryset = Book.objects.select_related("author")
    serializer_class = BookSerializer


class GuardedView(OptimisticLockMixin, PlainView):
    pass


class NestedView(GuardedView):
    """Shows another row too, so that only the rendered answer can be tagged."""

    serializer_class = NestedBookSerializer  # type: ignore[assignment]


urlpatterns = [
    path("plain/<pk>/", PlainView.as_view()),
    path("guarded/<pk>/", GuardedView.as_view()),
    path("nested/<pk>/", NestedView.as_view()),
]

"""Optimistic concurrency over HTTP for Django REST framework: reads carry an ETag, writes carry If-Match."""

try:
    import rest_framework as _rest_framework  # noqa: F401
except ImportError as error:
    raise ImportError(
        "occ.rest_framework needs Django REST framework: pip install 'django-occ[drf]'", name="rest_framework"
    ) from error

from occ.rest_framework.actions import require_if_match
from occ.rest_framework.apply import ApplyPatchMixin
from occ.rest_framework.bulk import check_versions
from occ.rest_framework.mixins import OptimisticLockMixin

__all__ = ["ApplyPatchMixin", "OptimisticLockMixin", "check_versions", "require_if_match"]

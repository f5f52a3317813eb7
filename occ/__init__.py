"""Optimistic concurrency for Django: the names that need no app registry.

Models live in ``occ.models``, REST in ``occ.rest_framework``, the admin in ``occ.admin``.
"""

from occ.attribution import field_manager
from occ.backoff import KUBERNETES_BACKOFF, KUBERNETES_RETRY, Backoff
from occ.exceptions import BulkConflict, Conflict, FieldConflict, VersionNotLoaded
from occ.fields import from_clock
from occ.retry import retry_on_conflict

__version__ = "0.1.0"

__all__ = [
    "KUBERNETES_BACKOFF",
    "KUBERNETES_RETRY",
    "Backoff",
    "BulkConflict",
    "Conflict",
    "FieldConflict",
    "VersionNotLoaded",
    "field_manager",
    "from_clock",
    "retry_on_conflict",
]

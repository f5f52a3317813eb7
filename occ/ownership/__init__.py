"""Field ownership: several managers write one row, each its own fields, and do not conflict."""

from occ.exceptions import Contested, FieldConflict
from occ.managed_fields import ManagedFields
from occ.ownership.entries import Owner, owners_of
from occ.ownership.models import FieldOwnershipModel
from occ.ownership.querysets import FieldOwnershipManager, FieldOwnershipQuerySet

__all__ = [
    "Contested",
    "FieldConflict",
    "FieldOwnershipManager",
    "FieldOwnershipModel",
    "FieldOwnershipQuerySet",
    "ManagedFields",
    "Owner",
    "owners_of",
]

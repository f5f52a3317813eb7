"""Forms that do not overwrite what others saved meanwhile: ``OptimisticLockModelForm`` and its parts.

``token``: what a page showed, signed. ``comparison``: opened, current and submitted values side by side.
``values``, ``submission``: a bound form's values, and how to replace them. ``conflicts``: what differs, in words.
``guard``: the form mixin.
"""

from occ.forms.conflicts import FieldConflict, FormConflict
from occ.forms.guard import TOKEN_FIELD, OptimisticLockFormMixin, OptimisticLockModelForm
from occ.forms.token import Token, read_token

__all__ = [
    "TOKEN_FIELD",
    "FieldConflict",
    "FormConflict",
    "OptimisticLockFormMixin",
    "OptimisticLockModelForm",
    "Token",
    "read_token",
]

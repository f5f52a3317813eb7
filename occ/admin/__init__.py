"""The admin that loses nobody's edit and nobody's typing.

``OptimisticLockAdminMixin`` goes left of ``ModelAdmin``, ``OptimisticLockInlineMixin`` left of ``TabularInline`` or
``StackedInline``.

``submit``: what one request is about. ``guarded``, ``formsets``: forms with the token. ``changeform``,
``changelist``, ``deletion``, ``actions``, ``notice``: the views. ``panel``, ``history``, ``wording``: what a person
gets to see of a conflict. ``checks``: misuse, told by ``manage.py check``.
"""

from occ.admin import checks  # noqa: F401  (registers them)
from occ.admin.actions import occ_action
from occ.admin.options import OptimisticLockAdminMixin, OptimisticLockInlineMixin

__all__ = ["OptimisticLockAdminMixin", "OptimisticLockInlineMixin", "occ_action"]

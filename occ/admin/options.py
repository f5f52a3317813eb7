"""The two mixins: what is configured, and the parts put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from django.contrib import admin
from django.http import HttpRequest

from occ.admin.actions import ActionMixin
from occ.admin.changeform import ChangeFormMixin
from occ.admin.changelist import ChangeListMixin
from occ.admin.deletion import DeletionMixin
from occ.admin.formsets import guarded_formset
from occ.admin.managers import ManagersMixin

if TYPE_CHECKING:
    _InlineModelAdmin = admin.options.InlineModelAdmin[Any, Any]
else:
    _InlineModelAdmin = object


class OptimisticLockAdminMixin(ManagersMixin, ActionMixin, ChangeListMixin, DeletionMixin, ChangeFormMixin):
    """Makes a ``ModelAdmin`` refuse, show and merge edits of rows that were changed meanwhile.

    Goes leftmost: ``class BookAdmin(OptimisticLockAdminMixin, admin.ModelAdmin)``.
    """


class OptimisticLockInlineMixin(_InlineModelAdmin):
    """Guards the rows of an inline each by its own version: ``class ChapterInline(OptimisticLockInlineMixin,
    admin.TabularInline)``, in a ``ModelAdmin`` that has ``OptimisticLockAdminMixin``.

    A row that somebody else changed or deleted meanwhile is shown at the row; rows that nobody touched are not
    written, however old the page is. Row and parent do not conflict with each other.
    """

    #: As in ``OptimisticLockAdminMixin``, for each row.
    occ_conflict: Literal["ask", "merge"] = "ask"
    #: As in ``OptimisticLockAdminMixin``, for each row.
    occ_merge_groups: Sequence[Sequence[str]] = ()
    #: As in ``OptimisticLockAdminMixin``, for each row.
    occ_masked_fields: Sequence[str] = ()

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        options = {
            "occ_conflict": self.occ_conflict,
            "occ_merge_groups": self.occ_merge_groups,
            "occ_masked_fields": self.occ_masked_fields,
            "occ_offers_choices": True,
        }
        return guarded_formset(super().get_formset(request, obj, **kwargs), options)

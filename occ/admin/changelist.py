"""The list: edits of several rows at once, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import router
from django.http import HttpRequest, HttpResponse

from occ.admin import panel
from occ.admin.formsets import GuardedFormSetMixin, guarded_formset
from occ.admin.submit import CONFLICT, Submit, current_submit

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object


class ChangeListMixin(_ModelAdmin):
    """The list of ``OptimisticLockAdminMixin``."""

    def get_changelist_formset(self, request: HttpRequest, **kwargs: Any) -> Any:
        return guarded_formset(super().get_changelist_formset(request, **kwargs), self._row_options(request))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        view = super().changelist_view
        if request.method != "POST" or "_save" not in request.POST:
            return view(request, extra_context)
        response: HttpResponse = Submit().run(
            request, router.db_for_write(self.model), lambda: view(request, extra_context)
        )
        changelist = (getattr(response, "context_data", None) or {}).get("cl")
        formset = getattr(changelist, "formset", None)
        if isinstance(formset, GuardedFormSetMixin) and formset.is_bound:
            if panel.show_rows(formset, self.get_empty_value_display(), may_add=False):
                response.status_code = CONFLICT
            _pair(changelist, formset)
        return response

    def _row_options(self, request: HttpRequest) -> Mapping[str, Any]:
        submit = current_submit(request)
        return {
            **self._conflict_options(),  # type: ignore[attr-defined]
            "occ_refused": "raced" if submit is not None and submit.final else None,
        }


def _pair(changelist: Any, formset: Any) -> None:
    """Show each row's inputs beside its own object, whatever order the list has by now.

    Django pairs the rows of the list as it is now with the forms as they were sent. Rows whose object is gone cannot
    be shown; what was typed into them is told above the list.
    """
    kept = []
    for form in formset.initial_forms:
        if not form.instance._state.adding:
            kept.append(form)
        elif NON_FIELD_ERRORS in form.errors:
            formset.non_form_errors().extend(form.errors[NON_FIELD_ERRORS].data)
    changelist.result_list = [form.instance for form in kept]
    formset.__dict__["forms"] = kept

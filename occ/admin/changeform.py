"""The change form: the token in the page, the check on submit, and one page for every way to be late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_permission_codename
from django.db import models, router
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from occ.admin import panel
from occ.admin.formsets import GuardedFormSetMixin
from occ.admin.guarded import guarded_form
from occ.admin.notice import LiveNoticeMixin
from occ.admin.submit import CONFLICT, Submit, current_submit
from occ.forms import TOKEN_FIELD, OptimisticLockFormMixin, Token, read_token


class ChangeFormMixin(LiveNoticeMixin):
    """The change form of ``OptimisticLockAdminMixin``."""

    #: ``"ask"``: a stale submit comes back for a decision. ``"merge"``: it is saved when no field was changed on
    #: both sides.
    occ_conflict: Literal["ask", "merge"] = "ask"
    #: Fields that only make sense together, such as ``[("price", "currency")]``: they are merged as one.
    occ_merge_groups: Sequence[Sequence[str]] = ()
    #: Fields whose values a conflict page must not show. Password inputs are masked anyway.
    occ_masked_fields: Sequence[str] = ()

    @property
    def media(self) -> forms.Media:
        return super().media + forms.Media(css={"all": ["occ/admin.css"]})

    def has_overwrite_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Tell whether this person may overwrite what others saved: ``<app>.overwrite_<model>``, and change."""
        codename = get_permission_codename("overwrite", self.opts)
        may_overwrite: bool = request.user.has_perm(f"{self.opts.app_label}.{codename}")
        return may_overwrite and self.has_change_permission(request, obj)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> type[Any]:
        form = super().get_form(request, obj, change=change, **kwargs)
        submit = current_submit(request)
        if not change and submit is not None and submit.deleted is not None:
            return guarded_form(form, {"occ_refused": "deleted", "occ_masked_fields": self.occ_masked_fields})
        return guarded_form(form, self._form_options(request, obj)) if change else form

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        view = super().changeform_view
        if request.method != "POST":
            return view(request, object_id, form_url, extra_context)
        submit = Submit()

        def attempt() -> Any:
            response = view(request, object_id, form_url, extra_context)
            token = read_token(request.POST.get(TOKEN_FIELD)) if submit.gone else None
            if token is None or token.model != self.opts.label or token.pk != unquote(object_id or ""):
                return response
            submit.messages.clear()
            return self._show_deleted(request, token, extra_context, lambda extra: view(request, None, form_url, extra))

        return submit.run(request, router.db_for_write(self.model), attempt)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        obj = super().get_object(request, object_id, from_field)
        submit = current_submit(request)
        if submit is not None:
            submit.gone = obj is None
        return obj

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        refused = getattr(form, "conflict", None) is not None
        if TOKEN_FIELD in form.fields and self.has_change_permission(request, context["original"]):
            context["adminform"].fieldsets.append((None, {"fields": (TOKEN_FIELD,), "classes": ("hidden",)}))
            self._watch(request, context, form)
        if refused:
            panel.show(self, request, form)
        for inline in context["inline_admin_formsets"]:
            if isinstance(inline.formset, GuardedFormSetMixin) and inline.formset.is_bound:
                empty, may_add = inline.opts.get_empty_value_display(), inline.has_add_permission
                refused |= panel.show_rows(inline.formset, empty, may_add=may_add)
        submit = current_submit(request)
        if submit is not None and submit.deleted is not None:
            kwargs |= {"add": True, "change": False}  # there is no object that the page could name or link to
        response = super().render_change_form(request, context, *args, **kwargs)
        if refused:
            response.status_code = CONFLICT
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change and isinstance(form, OptimisticLockFormMixin) and not form.writes_row():
            return
        super().save_model(request, obj, form, change)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> list[dict[str, Any]]:
        message = super().construct_change_message(request, form, formsets, add)
        submit = current_submit(request)
        if submit is not None:
            guarded = isinstance(form, OptimisticLockFormMixin) and not add
            submit.unchanged = guarded and not message and not form.was_written()
            submit.already = guarded and bool(form.comparison and form.comparison.agreed)
            submit.note = _resolution(form) if guarded else ""
            submit.kept = form.merged_labels() if guarded else []
        return message

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        submit = current_submit(request)
        if submit is not None and submit.unchanged:
            return None
        entry = super().log_change(request, obj, message)
        if submit is not None and submit.note:
            super().log_change(request, obj, submit.note)
        return entry

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        submit = current_submit(request)
        if submit is None or not submit.unchanged:
            response = super().response_change(request, obj)
            if submit is not None and submit.kept:
                text = ngettext(
                    "%(fields)s was changed by others meanwhile; their value was kept.",
                    "%(fields)s were changed by others meanwhile; their values were kept.",
                    len(submit.kept),
                )
                fields = get_text_list(submit.kept, _("and"))
                self.message_user(request, text % {"fields": fields}, messages.INFO)
            return response
        before = list(submit.messages)
        response = super().response_change(request, obj)
        submit.messages = before
        if submit.already:  # such as by a second click
            text = _("The %(name)s “%(object)s” already has the values that you typed.")
        else:
            text = _("You changed nothing in the %(name)s “%(object)s”, so nothing was saved.")
        self.message_user(request, text % {"name": self.opts.verbose_name, "object": obj}, messages.INFO)
        return response

    def message_user(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        show = super().message_user
        submit = current_submit(request)
        if submit is None:
            show(request, *args, **kwargs)
        else:
            submit.messages.append(lambda: show(request, *args, **kwargs))

    def _show_deleted(
        self, request: HttpRequest, token: Token, extra_context: Any, add_view: Callable[[Any], HttpResponse]
    ) -> HttpResponse:
        """Show what was typed into the form of an object that is gone, to be saved as a new one by who may."""
        cast(Submit, current_submit(request)).deleted = token
        if not self.has_add_permission(request):
            return panel.show_typed(self, request, token)
        data: Any = request.POST.copy()
        data["_saveasnew"] = "1"  # inline rows become new ones, too
        request.POST = data
        return add_view({**(extra_context or {}), "show_save_and_add_another": False})

    def _conflict_options(self) -> dict[str, Any]:
        return {
            "occ_conflict": self.occ_conflict,
            "occ_merge_groups": self.occ_merge_groups,
            "occ_masked_fields": self.occ_masked_fields,
            "occ_offers_choices": True,
        }

    def _form_options(self, request: HttpRequest, obj: Any) -> Mapping[str, Any]:
        submit = current_submit(request)
        return {
            **self._conflict_options(),
            "occ_may_overwrite": submit is not None and self.has_overwrite_permission(request, obj),
            "occ_refused": "raced" if submit is not None and submit.final else None,
        }


def _resolution(form: OptimisticLockFormMixin) -> str:
    """Return what the log shall say of a save that ended a conflict: whose values were kept, and whose overwritten."""
    settled = form.settled()
    if settled is None:
        return ""
    with translation.override(settings.LANGUAGE_CODE):
        facts = {"opened": settled.opened_version, "version": settled.version}
        labels = {name: str(form.fields[name].label or name) for name in (*settled.overwritten, *settled.kept)}
        parts = []
        if settled.overwritten:
            names = get_text_list([labels[name] for name in settled.overwritten], _("and"))
            parts.append(
                _("Overwrote version %(version)d (opened: version %(opened)d) in: %(fields)s.")
                % {**facts, "fields": names}
            )
        if settled.kept:
            names = get_text_list([labels[name] for name in settled.kept], _("and"))
            parts.append(
                _("Kept version %(version)d (opened: version %(opened)d) in: %(fields)s.") % {**facts, "fields": names}
            )
    return " ".join(parts)

"""The delete view: what is deleted is what the confirmation page showed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import FieldDoesNotExist
from django.db import models, router
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from occ.admin.confirmation import remember
from occ.admin.history import changes_since
from occ.admin.submit import CONFLICT, Submit, as_get, current_submit
from occ.admin.wording import field_in_words
from occ.exceptions import Conflict
from occ.fields import VersionField, get_version, version_field
from occ.forms import TOKEN_FIELD, Token, read_token
from occ.forms.comparison import now
from occ.forms.token import Stored, restore, same, shorten, store

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object


class DeletionMixin(_ModelAdmin):
    """The delete view of ``OptimisticLockAdminMixin``."""

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        view = super().delete_view
        if request.method != "POST":
            return view(request, object_id, extra_context)
        submit = Submit(attempts=2, shown=read_token(request.POST.get(TOKEN_FIELD)))

        def attempt() -> HttpResponse:
            if not submit.final:
                return view(request, object_id, extra_context)
            response = view(as_get(request), object_id, extra_context)
            if response.status_code == 200:
                response.status_code = CONFLICT
            return response

        response: HttpResponse = submit.run(request, router.db_for_write(self.model), attempt)
        return response

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        obj = context["object"]
        submit = current_submit(request)
        if submit is not None and submit.final:
            self.message_user(request, self._why_not_deleted(request, obj, submit.shown), messages.ERROR)
        response = super().render_delete_form(request, context)
        token = Token(
            model=obj._meta.label,
            pk=str(obj.pk),
            version=get_version(obj),
            base=self._shown_values(request, obj),
            opened=now(),
            opened_version=get_version(obj),
        )
        remember(response, [(TOKEN_FIELD, token.sign())])
        return response

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        submit = current_submit(request)
        if submit is not None:
            token = submit.shown
            if token is None or not token.is_of(obj):
                raise Conflict(
                    model=type(obj), pk=obj.pk, expected=None, actual=get_version(obj), operation="delete", instance=obj
                )
            # The DELETE itself compares the row with what the page showed.
            setattr(obj, cast(VersionField, version_field(obj)).attname, token.version)
        super().delete_model(request, obj)

    def _why_not_deleted(self, request: HttpRequest, obj: Any, token: Token | None) -> str:
        name = self.opts.verbose_name
        if token is None or not token.is_of(obj):
            text = _("Not deleted: the page did not say which version of the %(name)s it showed. Please confirm again.")
            return text % {"name": name}
        text = _("Not deleted: this %(name)s was changed after you opened the page. Look at it again, then confirm.")
        current = self._shown_values(request, obj)
        changes = [
            (label, before, after)
            for key, value in current.items()
            if key in token.base and not same(token.base[key], value)
            for label, before, after in [self._change_in_words(obj, key, token.base[key])]
        ]
        people = ", ".join(
            f"{change.who} ({change.when_in_words})"
            for change in changes_since(obj, obj.pk, token.opened_at, {})
            if change.who
        )
        listed = format_html_join("", "<br>{}: <del>{}</del> → <b>{}</b>", changes)
        return format_html("{} {}{}", text % {"name": name}, people, listed)

    def _change_in_words(self, obj: Any, name: str, before: Stored) -> tuple[str, Any, Any]:
        field = obj._meta.get_field(name)
        empty = self.get_empty_value_display()
        try:
            was = field_in_words(field, restore(field, before), empty)
        except ValueError:
            return capfirst(str(field.verbose_name)), "…", "…"
        return capfirst(str(field.verbose_name)), was, field_in_words(field, field.value_from_object(obj), empty)

    def _shown_values(self, request: HttpRequest, obj: Any) -> dict[str, Stored]:
        """Return the values of the columns that this person sees on the object's form."""
        values = {}
        masked = self._masked_names(request, obj)
        for name in flatten_fieldsets(self.get_fieldsets(request, obj)):
            try:
                field = obj._meta.get_field(name)
            except (FieldDoesNotExist, TypeError):
                continue
            if isinstance(field, models.Field) and field.concrete and not field.many_to_many and not field.is_relation:
                values[name] = shorten(store(field, field.value_from_object(obj)), masked=name in masked)
        return values

    def _masked_names(self, request: HttpRequest, obj: Any) -> set[str]:
        fields = self.get_form(request, obj, change=True).base_fields
        passwords = {name for name, field in fields.items() if isinstance(field.widget, forms.PasswordInput)}
        return passwords | set(getattr(self, "occ_masked_fields", ()))

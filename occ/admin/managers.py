"""Who manages a field: the person who saves, in what is written, and every manager, at the fields of the form."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from occ.attribution import field_manager
from occ.ownership import owners_of

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object


class ManagersMixin(_ModelAdmin):
    """Attributes what a person writes to ``user:<pk>``, and shows who manages the fields of the object."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with _by(request):
            return super().changeform_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with _by(request):
            return super().changelist_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with _by(request):
            return super().delete_view(request, *args, **kwargs)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        original = context["original"]
        if original is not None and hasattr(original, "_occ_managed_fields"):
            show_managers(context["adminform"].form, original)
        return super().render_change_form(request, context, *args, **kwargs)


def show_managers(form: Any, instance: models.Model) -> None:
    """Add to the help texts of ``form`` who manages the fields of ``instance``, those shown to be read included."""
    help_texts = {}
    for name in getattr(instance, instance._occ_managed_fields.attname):  # type: ignore[attr-defined]
        managers = get_text_list([owner.manager for owner in owners_of(instance, name)], _("and"))
        if name in form.fields:
            form[name].help_text = _with_managers(form[name].help_text, managers)
            continue
        try:
            field = instance._meta.get_field(name)
        except FieldDoesNotExist:
            continue  # a field that has been removed since
        help_texts[name] = _with_managers(getattr(field, "help_text", ""), managers)
    form._meta = copy.copy(form._meta)  # of this form, not of its class
    form._meta.help_texts = {**(form._meta.help_texts or {}), **help_texts}


def _with_managers(help_text: Any, managers: str) -> SafeString:
    # Help texts are HTML already, as everywhere in the admin; the names of managers are not.
    before = SafeString(f"{help_text}<br>" if help_text else "")
    text = _("Managed by %(managers)s.") % {"managers": managers}
    return format_html('{}<span class="occ-managers">{}</span>', before, text)


def _by(request: HttpRequest) -> AbstractContextManager[None]:
    return field_manager(f"user:{request.user.pk}")

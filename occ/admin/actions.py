"""Actions: they run on the rows as the page showed them, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connections, router, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from occ.admin.confirmation import remember
from occ.admin.submit import CONFLICT, as_get
from occ.fields import get_version, version_field
from occ.forms import TOKEN_FIELD, read_token
from occ.locks import take_write_lock
from occ.retry import is_retryable

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = "occ_shown"
_SIGNER_SALT = "occ.admin.shown"


@overload
def occ_action(function: F, /) -> F: ...
@overload
def occ_action(*, check: bool = True, **options: Any) -> Callable[[F], F]: ...
def occ_action(function: F | None = None, /, *, check: bool = True, **options: Any) -> F | Callable[[F], F]:
    """Mark an admin action, as ``admin.action`` does, and say whether the selected rows are checked first.

    Args:
        check: False lets the action run although rows were changed after the page was shown; for actions that
            do not depend on what a person saw, such as an export.
        options: those of ``django.contrib.admin.action``.
    """

    def decorate(action: F) -> F:
        decorated: F = admin.action(**options)(action)
        decorated.__dict__["occ_check"] = check
        return decorated

    return decorate if function is None else decorate(function)


class ActionMixin(_ModelAdmin):
    """The actions of ``OptimisticLockAdminMixin``."""

    def action_checkbox(self, obj: Any) -> SafeString:
        checkbox = str(super().action_checkbox(obj))
        if getattr(obj, "_occ_selected", False):
            checkbox = checkbox.replace("<input ", "<input checked ", 1)
        shown = f"{obj._meta.label}:{get_version(obj)}:{obj.pk}"
        hidden = format_html(
            '<input type="hidden" name="{}" value="{}" autocomplete="off">',
            SHOWN,
            signing.Signer(salt=_SIGNER_SALT).sign(shown),
        )
        return SafeString(checkbox + hidden)

    # Its heading and what else Django says about the column.
    action_checkbox.__dict__.update(admin.ModelAdmin.action_checkbox.__dict__)

    def response_action(self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._is_checked(request, kwargs):
            return super().response_action(request, queryset, *args, **kwargs)
        using = router.db_for_write(self.model)
        # Rows are locked from the check to the end of the action: whoever wants to write them waits.
        try:
            with transaction.atomic(using=using):
                stale = self._stale_rows(request, using)
                if not stale:
                    response = super().response_action(request, queryset, *args, **kwargs)
                    remember(response, [(SHOWN, value) for value in request.POST.getlist(SHOWN)])
                    return response
        except DatabaseError as error:  # the action wrote rows that were not selected, and was not alone
            if not is_retryable(error, using) or connections[using].needs_rollback:
                raise
            stale = {}
        return self._shown_again(request, stale, kwargs.get("action_location"))

    def _is_checked(self, request: HttpRequest, kwargs: dict[str, Any]) -> bool:
        location = kwargs.get("action_location")
        # Django 6.1 tells from which page an action is run.
        actions: Any = self.get_actions(request, **({} if location is None else {"action_location": location}))
        action = actions.get(self._action_name(request, location))
        if action is None:
            return False
        function = action[0] if isinstance(action, tuple) else action.func
        return bool(getattr(function, "occ_check", True))

    def _action_name(self, request: HttpRequest, location: Any = None) -> str:
        names = request.POST.getlist("action")
        if not names and location is not None:
            return request.POST.get(f"{location.value}-action", "")
        try:
            return names[int(request.POST.get("index", 0))]
        except (IndexError, ValueError):
            return names[0] if names else ""

    def _stale_rows(self, request: HttpRequest, using: str) -> dict[str, int | None]:
        """Return the keys of the selected rows that are not as the page showed them, with their versions now."""
        shown = self._shown_versions(request)
        selected = set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        if request.POST.get("select_across") == "1":
            selected |= shown.keys()  # of rows on other pages nobody has seen a version
        field = version_field(self.model)
        if field is None or not selected:
            return {}
        connection = connections[using]
        if not connection.features.has_select_for_update:
            take_write_lock(self.model, connection)
        rows = self.model._base_manager.using(using).select_for_update().order_by()
        try:
            versions = {str(pk): version for pk, version in rows.filter(pk__in=selected).values_list("pk", field.name)}
        except (TypeError, ValueError, ValidationError):
            return dict.fromkeys(selected)
        return {pk: versions.get(pk) for pk in selected if versions.get(pk) != shown.get(pk)}

    def _shown_versions(self, request: HttpRequest) -> dict[str, int]:
        versions: dict[str, int] = {}
        for value in request.POST.getlist(SHOWN):
            try:
                label, version, pk = signing.Signer(salt=_SIGNER_SALT).unsign(value).split(":", 2)
            except signing.BadSignature:
                continue
            if label == self.opts.label:
                versions[pk] = int(version)
        token = read_token(request.POST.get(TOKEN_FIELD))  # an action of the change form
        if token is not None and token.model == self.opts.label:
            versions.setdefault(token.pk, token.version)
        return versions

    def _shown_again(self, request: HttpRequest, stale: dict[str, int | None], location: Any) -> HttpResponse:
        """Show the page as it is now; a list with the same rows and the same action selected."""
        self.message_user(request, self._why_nothing_was_done(request, stale), messages.ERROR)
        response: Any
        match: Any = request.resolver_match
        if location is not None and location.name == "CHANGE_FORM":
            response = self.changeform_view(as_get(request), match.kwargs["object_id"])
        else:
            response = self.changelist_view(as_get(request))
        context = getattr(response, "context_data", None) or {}
        selected = set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        for obj in getattr(context.get("cl"), "result_list", ()):
            obj._occ_selected = str(obj.pk) in selected
        if context.get("action_form") is not None and "cl" in context:
            context["action_form"].fields["action"].initial = self._action_name(request)
        response.status_code = CONFLICT
        return response  # type: ignore[no-any-return]

    def _why_nothing_was_done(self, request: HttpRequest, stale: dict[str, int | None]) -> str:
        if not stale:
            return _("Nothing was done: somebody else wrote at the same moment. Please try again.")
        there = [pk for pk, version in stale.items() if version is not None]
        names = [str(obj) for obj in self.get_queryset(request).filter(pk__in=there)]
        names += ["#" + pk for pk, version in stale.items() if version is None]
        text = ngettext(
            "Nothing was done: a selected row was changed or deleted after you opened this page: %(rows)s.",
            "Nothing was done: %(count)d selected rows were changed or deleted after you opened this page: %(rows)s.",
            len(stale),
        )
        rows = get_text_list(sorted(names), _("and"))
        return text % {"count": len(stale), "rows": rows}

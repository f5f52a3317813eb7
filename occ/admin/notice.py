"""The live notice: a conditional GET that tells an open form whether its object was saved meanwhile."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _

from occ.admin.history import changes_since
from occ.fields import get_version
from occ.forms import TOKEN_FIELD
from occ.forms.comparison import now

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

_GONE = '"gone"'
_OPENED = re.compile(r"[0-9]{1,10}(\.[0-9]{1,3})?\Z")


class LiveNoticeMixin(_ModelAdmin):
    """The live notice of ``OptimisticLockAdminMixin``."""

    #: Seconds between two questions whether the object of an open form was changed; 0: never asked.
    occ_notice_seconds: float = 10

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.occ_state_view)
        return [path("<path:object_id>/occ-state/", view, name=self._state_url_name()), *super().get_urls()]

    def occ_state_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer 304 while the object is at the version in If-None-Match, else say who changed it."""
        obj = self.get_object(request, unquote(object_id))
        if not self.has_view_or_change_permission(request, obj):
            raise PermissionDenied
        etag = _GONE if obj is None else _etag(obj)
        if request.headers.get("If-None-Match") == etag:
            return HttpResponseNotModified(headers={"ETag": etag})
        return JsonResponse({"text": self._news(request, obj, object_id)}, headers={"ETag": etag})

    def _watch(self, request: HttpRequest, context: dict[str, Any], form: forms.BaseModelForm[Any]) -> None:
        """Let the page of a change form ask for news."""
        if not self.occ_notice_seconds:
            return
        obj = form.instance
        url = reverse(f"admin:{self._state_url_name()}", args=[quote(obj.pk)], current_app=self.admin_site.name)
        form.fields[TOKEN_FIELD].widget.attrs |= {
            "data-occ-state-url": f"{url}?opened={now():.3f}",
            "data-occ-etag": _etag(obj),
            "data-occ-every": str(self.occ_notice_seconds),
        }
        context["media"] += forms.Media(js=["occ/live.js"])

    def _news(self, request: HttpRequest, obj: Any, object_id: str) -> str:
        name = self.opts.verbose_name
        opened = _OPENED.match(request.GET.get("opened", ""))
        since = datetime.datetime.fromtimestamp(float(opened[0]), datetime.UTC) if opened else None
        change = changes_since(obj or self.model(), unquote(object_id), since, {})[-1]
        if obj is None:
            return _("This %(name)s was deleted. What you typed is not lost: save to keep it.") % {"name": name}
        facts = {"name": name, "who": change.who, "time": change.when_in_words}
        if change.who and change.user_pk == request.user.pk:
            text = _("You saved this %(name)s elsewhere at %(time)s. When you save here, you will see both versions.")
        elif change.who:
            text = _("%(who)s saved this %(name)s at %(time)s. When you save, you will see both versions.")
        else:
            text = _("Another program changed this %(name)s. When you save, you will see both versions.")
        return text % facts

    def _state_url_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_occ_state"


def _etag(obj: Any) -> str:
    return f'"{get_version(obj)}"'

"""The page with the chart: conflict rates over time, the same numbers in a table, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from occ.conf import occ_settings
from occ.contention.chart import clock_time, draw, percent
from occ.contention.models import Bucket
from occ.contention.report import WINDOWS, ModelReport, Window, report

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Bucket]
else:
    _ModelAdmin = admin.ModelAdmin

DEFAULT_WINDOW = "24h"
MOST_WRITERS = 5


def panel(request: HttpRequest, default: str = DEFAULT_WINDOW) -> dict[str, Any]:
    """Return what ``occ/contention/panel.html`` shows: chart, table and advice for the window that is asked for.

    For pages of others that want to show contention beside their own; they see to the permission
    ``occ_contention.view_bucket``.
    """
    name = request.GET.get("window", default)
    window = WINDOWS.get(name) or WINDOWS[default]
    reports = report(window)
    line = occ_settings.CONFLICT_WARN
    return {
        "window": window,
        "windows": [(key, each.title, each is window) for key, each in WINDOWS.items()],
        "chart": draw(reports, window, line),
        "line": percent(line),
        "worst_title": _worst_title(window),
        "rows": [_row(each, window) for each in reports],
        "advice": [(each.model, each.above_line, each.advice.text) for each in reports if each.advice is not None],
    }


def _worst_title(window: Window) -> str:
    minutes = window.slot // 60
    if minutes < 60:
        return _("Worst %(minutes)d min") % {"minutes": minutes}
    return _("Worst %(hours)d h") % {"hours": minutes // 60}


def _row(each: ModelReport, window: Window) -> dict[str, Any]:
    worst = each.worst
    rate = None if worst is None else worst.rate
    return {
        "model": each.model,
        "writes": number_format(each.writes, force_grouping=True),
        "conflicts": number_format(each.conflicts, force_grouping=True),
        "rate": percent(each.rate),
        "attempts": each.attempts_per_success,
        "worst": None if rate is None else percent(rate, digits=1),
        "worst_at": None if worst is None else clock_time(worst.start, window),
        "crossed": each.crossed,
        "refused": [
            (writer.name, number_format(writer.conflicts, force_grouping=True))
            for writer in each.writers[:MOST_WRITERS]
            if writer.conflicts
        ],
    }


@admin.register(Bucket)
class ContentionAdmin(_ModelAdmin):
    """Shows the report in the place of a list of buckets; there is nothing to change."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": _("Contention"),
            "opts": self.opts,
            "contention": panel(request),
            "now": timezone.now(),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "occ/contention/page.html", context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

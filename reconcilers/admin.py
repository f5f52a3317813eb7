"""Work items in the admin: what waits, what fails, what was given up, and what a person can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db import router
from django.db.models import Case, CharField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.formats import number_format
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from reconcilers import registry
from reconcilers.exceptions import UnknownReconciler
from reconcilers.models import WorkItem
from reconcilers.workqueue import operate
from reconcilers.workqueue.overview import LIMIT, Overview, QueueOverview, overview
from reconcilers.workqueue.reports import conditions

MOST_LISTED = 10_000
OLDEST_DUE = 60.0  # seconds, as for `workqueue --check`

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[WorkItem]
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator
    _ModelAdmin = admin.ModelAdmin

_STATES = {
    "due": _("due"),
    "running": _("running"),
    "failing": _("failing"),
    "waiting": _("waiting"),
    "idle": _("idle"),
    "parked": _("parked"),
}


class StateFilter(admin.SimpleListFilter):
    """By what an item waits for."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(_STATES.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = self.value()
        return queryset.filter(conditions()[state]) if state in _STATES else queryset


class ReconcilerFilter(admin.SimpleListFilter):
    """By reconciler: those that this process knows, since the table takes long to tell which it has."""

    title = _("reconciler")
    parameter_name = "reconciler"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, name) for name in sorted(each.name for each in registry.all_reconcilers())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reconciler=self.value()) if self.value() else queryset


class BoundedPaginator(_Paginator):
    """Counts so many rows and no more: behind them nobody pages, one searches."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        counted: int = rows.order_by()[:MOST_LISTED].count()
        return counted


def shown(queue: QueueOverview) -> dict[str, Any]:
    """Return the tiles, and the table of the reconcilers, as texts."""

    def cells(each: Overview) -> list[str]:
        numbers = [_number(value) for value in (each.due, each.scheduled, each.running)]
        return [*numbers, _age(each.oldest_due), _number(each.parked)]

    labels = [_("Due now"), _("Scheduled"), _("Running"), _("Oldest due"), _("Parked")]
    alarms = [False, False, False, (queue.total.oldest_due or 0) > OLDEST_DUE, queue.total.parked > 0]
    never_swept = queue.last_sweep is None
    return {
        "tiles": [
            *zip(labels, cells(queue.total), alarms, strict=True),
            (_("Last sweep"), gettext("never") if never_swept else _age(queue.last_sweep), never_swept),
        ],
        "labels": labels,
        "rows": [(each.name, cells(each)) for each in queue.reconcilers],
    }


def _number(value: int) -> str:
    return number_format(min(value, LIMIT), force_grouping=True) + ("+" if value > LIMIT else "")


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 100:
        return gettext("%(seconds)d s") % {"seconds": seconds}
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 100:
        return gettext("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    return gettext("%(hours)d h %(minutes)d min") % {"hours": minutes // 60, "minutes": minutes % 60}


@admin.register(WorkItem)
class WorkItemAdmin(_ModelAdmin):
    """Shows items; what changes them are the actions, which mind the leases of workers."""

    list_display = ("__str__", "state", "row", "attempts", "due_at", "last_success_at", "error")
    list_filter = (StateFilter, ReconcilerFilter)
    search_fields = ("key", "last_error")
    # The order of an index, so that a page of a long queue is read and not sorted.
    ordering = ("reconciler", "cause", "due_at", "pk")
    paginator = BoundedPaginator
    actions = ("requeue", "requeue_and_reset", "park")
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count the whole table

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context: dict[str, Any] = {"overview": shown(overview(router.db_for_read(WorkItem)))}
        if apps.is_installed("occ.contention") and request.user.has_perm("occ_contention.view_bucket"):
            from occ.contention.admin import panel

            context["contention"] = panel(request)
        filters: Any = request.GET.copy()
        filters.pop("window", None)  # the panel's; the list would take it for a filter
        request.GET = filters
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkItem]:
        whens = [When(condition, then=Value(state)) for state, condition in conditions().items()]
        state = Case(*whens, default=Value(""), output_field=CharField())
        return super().get_queryset(request).annotate(current_state=state)

    @admin.display(description=_("state"))
    def state(self, item: Any) -> str:
        return str(_STATES.get(item.current_state, ""))

    @admin.display(description=_("row"))
    def row(self, item: WorkItem) -> str:
        """Link to the row's own page, where the site has one."""
        try:
            reconciler = registry.get(item.reconciler)
            options = reconciler.model._meta
            url = reverse(
                f"{self.admin_site.name}:{options.app_label}_{options.model_name}_change",
                args=[reconciler.pk_for(item.key)],
            )
        except (UnknownReconciler, NoReverseMatch, ValueError):
            return item.key
        return format_html('<a href="{}">{} {}</a>', url, options.verbose_name, item.key)

    @admin.display(description=_("last error"))
    def error(self, item: WorkItem) -> str:
        first, _newline, _rest = item.last_error.partition("\n")
        return first if len(first) <= 100 else f"{first[:100]}…"

    @admin.action(description=_("Run now"), permissions=["operate"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[WorkItem]) -> None:
        self._requeue(request, queryset, reset=False)

    @admin.action(description=_("Run now, and forget failed attempts"), permissions=["operate"])
    def requeue_and_reset(self, request: HttpRequest, queryset: QuerySet[WorkItem]) -> None:
        self._requeue(request, queryset, reset=True)

    @admin.action(description=_("Park: do not run again by itself"), permissions=["operate"])
    def park(self, request: HttpRequest, queryset: QuerySet[WorkItem]) -> None:
        items = list(queryset.values_list("pk", flat=True))
        parked = operate.park(items, using=queryset.db, reason=f"Parked by {request.user}.")
        self.message_user(request, ngettext("Parked %d item.", "Parked %d items.", parked) % parked)
        if left := len(items) - parked:
            told = ngettext(
                "%d item was left alone: it is parked already, or a worker runs it at this moment.",
                "%d items were left alone: they are parked already, or workers run them at this moment.",
                left,
            )
            self.message_user(request, told % left, messages.WARNING)

    def _requeue(self, request: HttpRequest, queryset: QuerySet[WorkItem], *, reset: bool) -> None:
        items = list(queryset.values_list("pk", flat=True))
        count = operate.requeue(items, using=queryset.db, reset=reset)
        self.message_user(request, ngettext("Requeued %d item.", "Requeued %d items.", count) % count)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run and park items: with the permission to change them."""
        return request.user.has_perm("reconcilers.change_workitem")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) or self.has_operate_permission(request)

    # A form would overwrite what workers write meanwhile.
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

"""One admin site per package; the mixin is leftmost in each."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.urls import path
from guardian.admin import GuardedModelAdmin
from import_export.admin import ImportExportModelAdmin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from unfold.admin import ModelAdmin as UnfoldModelAdmin
from unfold.sites import UnfoldAdminSite

from occ.admin import OptimisticLockAdminMixin
from tests.occ.admin.composing.models import Article

BASES: dict[str, tuple[type[admin.AdminSite], Any]] = {
    "guardian": (admin.AdminSite, GuardedModelAdmin),
    "importexport": (admin.AdminSite, ImportExportModelAdmin),
    "reversion": (admin.AdminSite, VersionAdmin),
    "simplehistory": (admin.AdminSite, SimpleHistoryAdmin),
}
if apps.is_installed("unfold"):
    BASES = {"unfold": (UnfoldAdminSite, UnfoldModelAdmin)}

urlpatterns = []
for name, (site_class, base) in BASES.items():
    site = site_class(name=name)
    options = {"list_display": ("title", "price"), "list_editable": ("price",), "fields": ("title", "price")}
    site.register(Article, type(f"{name}Admin", (OptimisticLockAdminMixin, base), options))
    urlpatterns.append(path(f"{name}/", site.urls))

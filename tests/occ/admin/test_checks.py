"""``manage.py check`` tells of an admin that guards nothing."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.sites import all_sites

from occ.admin import OptimisticLockAdminMixin, OptimisticLockInlineMixin
from occ.admin.checks import check_admins
from tests.library.models import Book, Chapter, PlainBook


class WrongOrder(admin.ModelAdmin, OptimisticLockAdminMixin):  # type: ignore[misc]
    pass


class Forgotten(admin.ModelAdmin):
    pass


class Fine(OptimisticLockAdminMixin, admin.ModelAdmin):
    pass


class Misspelt(OptimisticLockAdminMixin, admin.ModelAdmin):
    occ_conflict = "overwrite"  # type: ignore[assignment]
    occ_merge_groups = [("price", "currency")]


class PlainInline(admin.TabularInline):
    model = Chapter


class GuardedInline(OptimisticLockInlineMixin, admin.TabularInline):
    model = Chapter


class FineWithInline(Fine):
    inlines = [GuardedInline]


class FineWithPlainInline(Fine):
    inlines = [PlainInline]


class ForgottenWithInline(Forgotten):
    inlines = [GuardedInline]


@pytest.mark.parametrize(
    ("model", "model_admin", "ids"),
    [
        (Book, Fine, []),
        (Book, FineWithInline, []),
        (PlainBook, Forgotten, []),
        (Book, Forgotten, ["occ.W010"]),
        (Book, WrongOrder, ["occ.E011"]),
        (PlainBook, Fine, ["occ.E012"]),
        (Book, Misspelt, ["occ.E014", "occ.E015"]),
        (Book, FineWithPlainInline, ["occ.W010"]),
        (Book, ForgottenWithInline, ["occ.W010", "occ.E013"]),
    ],
)
def test_misuse_is_told(model: Any, model_admin: Any, ids: list[str]) -> None:
    site = admin.AdminSite(name="checked")
    site.register(model, model_admin)

    messages = [message for message in check_admins() if message.obj is model_admin or message.obj in (PlainInline,)]

    assert [message.id for message in messages] == ids
    assert all(message.hint for message in messages if message.id not in ("occ.E014", "occ.E015"))
    all_sites.discard(site)

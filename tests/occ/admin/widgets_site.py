"""An admin with every kind of widget and relation, and with forms that depend on the object."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.contenttypes.admin import GenericTabularInline
from django.http import HttpRequest
from django.urls import path

from occ.admin import OptimisticLockAdminMixin, OptimisticLockInlineMixin
from tests.library.models import Anthology, Author, Book, Credit, Gate, Remark, Shelf, Tag

site = admin.AdminSite(name="widgets")


class LocalForm(forms.ModelForm):
    class Meta:
        localized_fields = "__all__"


@admin.register(Gate, site=site)
class GateAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    form = LocalForm
    fields = ("name", "replicas", "price", "spec", "opens_at", "author", "tags")
    autocomplete_fields = ("author",)
    filter_horizontal = ("tags",)


@admin.register(Author, site=site)
class AuthorAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    search_fields = ("name",)


@admin.register(Book, site=site)
class BookAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    """Sold-out books have other fields than those in stock; of lost ones the title cannot be edited."""

    raw_id_fields = ("author", "tags")
    occ_masked_fields = ("details",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        sold_out = obj is not None and obj.stock == 0
        names = ["notes"] if sold_out else ["price", "author", "tags", "details"]
        return [(None, {"fields": ["title", "stock", *names]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("title",) if obj is not None and obj.stock < 0 else ()


class CreditInline(OptimisticLockInlineMixin, admin.TabularInline):
    model = Credit
    extra = 0


class RemarkInline(OptimisticLockInlineMixin, GenericTabularInline):
    model = Remark
    extra = 0


@admin.register(Anthology, site=site)
class AnthologyAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    inlines = (CreditInline, RemarkInline)


@admin.register(Shelf, site=site)
class ShelfAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    pass


site.register(Tag)

urlpatterns = [path("widgets/", site.urls)]

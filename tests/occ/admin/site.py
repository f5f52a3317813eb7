"""The admin that these tests drive: a site of its own, so that nothing depends on the default one."""

from typing import Any

import django
from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path

from occ.admin import OptimisticLockAdminMixin, OptimisticLockInlineMixin, occ_action
from tests.library.models import Attachment, Author, Book, Chapter, Gate, Loan, Manuscript, Shelf, Tag

site = admin.AdminSite(name="editors")


@admin.register(Book, site=site)
class BookAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    fields = ("title", "stock", "price", "notes", "details", "author", "tags")
    list_display = ("title", "stock", "price")


@admin.register(Gate, site=site)
class GateAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    fields = ("name", "replicas", "image", "size")
    readonly_fields = ("size",)
    list_display = ("name", "replicas")
    list_editable = ("replicas",)


class AuthorAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    pass


class AttachmentInline(OptimisticLockInlineMixin, admin.TabularInline):
    model = Attachment
    extra = 0


class ManuscriptAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    inlines = (AttachmentInline,)


site.register(Author, AuthorAdmin)
site.register(Manuscript, ManuscriptAdmin)
site.register(Tag)

# The same models with everything on one page: rows of another model, lists to edit, keys that are no numbers.
tables = admin.AdminSite(name="tables")


ON_THE_FORM: dict[str, Any] = {}
if django.VERSION >= (6, 1):
    from django.contrib.admin.options import ActionLocation

    ON_THE_FORM = {"location": [ActionLocation.CHANGE_FORM]}


class ChapterInline(OptimisticLockInlineMixin, admin.TabularInline):
    model = Chapter
    extra = 1


@admin.register(Book, site=tables)
class BookWithChaptersAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    fields = ("title", "stock", "price")
    inlines = (ChapterInline,)
    list_display = ("title", "stock", "price")
    list_editable = ("stock", "price")
    ordering = ("title",)
    actions = ("double_the_price", "double_the_price_late", "archive", "export")

    def double_the_price(self, request: HttpRequest, queryset: Any) -> None:
        for book in queryset:
            book.price *= 2
            book.save()
        self.message_user(request, f"{len(queryset)} prices doubled.")

    def double_the_price_late(self, request: HttpRequest, queryset: Any) -> None:
        for book in queryset:
            Book.objects.filter(pk=book.pk).update(stock=99)
            book.price *= 2
            book.save()

    @occ_action(**ON_THE_FORM, description="Archive")
    def archive(self, request: HttpRequest, queryset: Any) -> None:
        queryset.update(notes="archived")
        self.message_user(request, "Archived.")

    @occ_action(check=False, description="Export as text")
    def export(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        return HttpResponse("".join(f"{book.title} {book.price}\n" for book in queryset), content_type="text/plain")


@admin.register(Loan, site=tables)
class LoanAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    list_display = ("id", "returned")
    list_editable = ("returned",)


@admin.register(Shelf, site=tables)
class ShelfAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    list_display = ("code", "label")
    list_editable = ("label",)


# Differences that are combined without asking, groups, and things not everybody may see.
merging = admin.AdminSite(name="merging")


class PasswordForm(forms.ModelForm):
    class Meta:
        widgets = {"notes": forms.PasswordInput(render_value=True)}


@admin.register(Book, site=merging)
class MergingBookAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    form = PasswordForm
    fields = ("title", "stock", "price", "notes", "details")
    readonly_fields = ("details",)
    occ_conflict = "merge"
    occ_merge_groups = [("stock", "price")]


# What else a ModelAdmin may have: rows of another model beside a many-to-many field, "Save as new", masked columns.
whole = admin.AdminSite(name="whole")


@admin.register(Book, site=whole)
class WholeBookAdmin(OptimisticLockAdminMixin, admin.ModelAdmin):
    fields = ("title", "notes", "tags")
    list_display = ("title", "stock", "price")
    list_editable = ("stock", "price")
    inlines = (ChapterInline,)
    save_as = True
    occ_masked_fields = ("notes",)


whole.register([Loan, Shelf], AuthorAdmin)

# Django's own ModelAdmins for the same models and pages, to compare costs with.
stock = admin.AdminSite(name="stock")


class StockChapterInline(admin.TabularInline):
    model = Chapter
    extra = 1


@admin.register(Book, site=stock)
class StockBookAdmin(admin.ModelAdmin):
    fields = WholeBookAdmin.fields
    list_display = ("title", "stock", "price")
    list_editable = ("stock", "price")
    inlines = (StockChapterInline,)


@admin.register(Gate, site=stock)
class StockGateAdmin(admin.ModelAdmin):
    fields = GateAdmin.fields
    readonly_fields = GateAdmin.readonly_fields
    list_display = GateAdmin.list_display
    list_editable = GateAdmin.list_editable


SITES = {"admin": site, "tables": tables, "merging": merging, "whole": whole, "stock": stock}
urlpatterns = [path(f"{name}/", each.urls) for name, each in SITES.items()]

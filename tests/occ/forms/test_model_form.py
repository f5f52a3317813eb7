"""``OptimisticLockModelForm`` outside the admin: the same token, and a form error that says what differs."""

from typing import Any

import pytest
from django import forms
from django.core.exceptions import ImproperlyConfigured

from occ.diffs import FieldDiff
from occ.exceptions import Conflict
from occ.forms import FormConflict, OptimisticLockModelForm
from tests.library.models import Author, Book, PlainBook


class BookForm(OptimisticLockModelForm):
    class Meta:
        model = Book
        fields = ("title", "stock", "price", "author")


@pytest.fixture
def book(db: None) -> Book:
    return Book.objects.create(title="Book 1", stock=1, price="50.00", author=Author.objects.create(name="Ursula"))


def opened(book: Book, form_class: type[Any] = BookForm) -> dict[str, Any]:
    """What a browser sends for a form nobody touched."""
    form = form_class(instance=Book.objects.get(pk=book.pk))
    return {name: form[name].value() for name in form.fields if form[name].value() is not None}


def submitted(book: Book, data: dict[str, Any], form_class: type[Any] = BookForm) -> Any:
    return form_class(data, instance=Book.objects.get(pk=book.pk))


def test_a_fresh_form_saves(book: Book) -> None:
    data = opened(book)

    form = submitted(book, {**data, "title": "Book One"})

    assert form.is_valid()
    assert form.conflict is None
    assert form.changed_data == ["title"]
    assert set(form.cleaned_data) == {"title", "stock", "price", "author"}
    assert form.save().version == 2


def test_a_stale_form_has_an_error_with_the_differences(book: Book) -> None:
    data = opened(book)
    Book.objects.filter(pk=book.pk).update(price="99.00", stock=11)

    form = submitted(book, {**data, "title": "Book One", "price": "45.00"})

    assert not form.is_valid()
    assert form.errors["__all__"] == ["Not saved yet: this book was changed after you opened it."]
    assert form.errors["price"] == ["This was changed meanwhile; the current value is: 99.00"]
    assert isinstance(form.conflict, FormConflict)
    assert (form.conflict.reason, form.conflict.expected, form.conflict.actual) == ("changed", 1, 2)
    assert [(diff.name, str(diff.base), str(diff.theirs), str(diff.mine)) for diff in form.conflict.diffs] == [
        ("title", "Book 1", "Book 1", "Book One"),
        ("stock", "1", "11", "1"),
        ("price", "50.00", "99.00", "45.00"),
    ]
    assert all(isinstance(diff, FieldDiff) for diff in form.conflict.diffs)
    error = form.errors["__all__"].as_data()[0]
    assert (error.code, error.params) == ("conflict", {"conflict": form.conflict})


def test_the_form_shown_again_saves_against_the_newer_version(book: Book) -> None:
    data = opened(book)
    Book.objects.filter(pk=book.pk).update(price="99.00", stock=11)
    stale = submitted(book, {**data, "title": "Book One", "price": "45.00"})
    assert not stale.is_valid()
    again = {name: stale[name].value() for name in stale.fields}

    form = submitted(book, again)

    assert form.is_valid()
    form.save()
    book.refresh_from_db()
    assert (book.title, book.stock, str(book.price), book.version) == ("Book One", 11, "45.00", 3)


def test_the_database_decides_when_somebody_is_faster_than_the_save(book: Book) -> None:
    form = submitted(book, {**opened(book), "title": "Book One"})
    assert form.is_valid()
    Book.objects.filter(pk=book.pk).update(price="99.00")

    with pytest.raises(Conflict) as caught:
        form.save()

    assert (caught.value.expected, caught.value.actual) == (1, 2)


def test_a_form_nobody_touched_writes_nothing(book: Book) -> None:
    form = submitted(book, opened(book))

    assert form.is_valid()
    form.save()

    book.refresh_from_db()
    assert book.version == 1


def test_merging_combines_edits_of_different_fields(book: Book) -> None:
    class Merging(BookForm):
        occ_conflict = "merge"

        class Meta(BookForm.Meta):
            pass

    data = opened(book, Merging)
    Book.objects.filter(pk=book.pk).update(stock=11)

    form = submitted(book, {**data, "title": "Book One"}, Merging)

    assert form.is_valid()
    form.save()
    book.refresh_from_db()
    assert (book.title, book.stock, book.version) == ("Book One", 11, 3)


def test_a_form_without_its_token_is_a_conflict(book: Book) -> None:
    data = {name: value for name, value in opened(book).items() if name != "occ_token"}

    form = submitted(book, {**data, "title": "Book One"})

    assert not form.is_valid()
    assert form.conflict is not None
    assert (form.conflict.reason, form.conflict.expected, form.conflict.actual) == ("untrusted", None, 1)


def test_what_the_forms_own_cleaning_makes_up_is_saved(book: Book) -> None:
    class Shouting(BookForm):
        class Meta(BookForm.Meta):
            pass

        def clean(self) -> dict[str, Any]:
            data = super().clean()
            data["title"] = f"{data['title'].upper()} ({data['stock']})"
            return data

    form = submitted(book, {**opened(book, Shouting), "stock": "3"}, Shouting)

    assert form.is_valid()
    form.save()
    book.refresh_from_db()
    assert (book.title, book.stock) == ("BOOK 1 (3)", 3)


def test_a_form_that_adds_needs_no_token(book: Book) -> None:
    assert "occ_token" not in BookForm().fields

    form = BookForm({"title": "New", "stock": "1", "price": "2"})

    assert form.is_valid()
    assert form.save().version == 1


def test_rows_of_a_plain_formset_are_guarded_each(book: Book) -> None:
    other = Book.objects.create(title="Book 2")
    formset_class = forms.modelformset_factory(Book, form=BookForm, fields=("title",), extra=0)
    rows = Book.objects.order_by("pk")
    data = {"form-TOTAL_FORMS": "2", "form-INITIAL_FORMS": "2"}
    for form in formset_class(queryset=rows):
        data |= {form.add_prefix(name): form[name].value() for name in ("id", "title", "occ_token")}
    Book.objects.filter(pk=other.pk).update(title="Changed")

    formset = formset_class({**data, "form-0-title": "A", "form-1-title": "B"}, queryset=rows.all())

    assert not formset.is_valid()
    assert [bool(form.conflict) for form in formset.forms] == [False, True]


def test_a_model_without_a_version_is_refused(db: None) -> None:
    class PlainForm(OptimisticLockModelForm):
        class Meta:
            model = PlainBook
            fields = ("title",)

    with pytest.raises(ImproperlyConfigured, match="has no VersionField"):
        PlainForm(instance=PlainBook.objects.create(title="Plain"))

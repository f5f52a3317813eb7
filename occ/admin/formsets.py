"""Formsets of the admin, inlines and editable lists: a token per row, and rows that others deleted meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.safestring import SafeString
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from occ.admin.guarded import guarded_form
from occ.forms import TOKEN_FIELD, OptimisticLockFormMixin
from occ.forms.comparison import CHOICE_PREFIX, Comparison
from occ.forms.conflicts import Reason
from occ.forms.token import Token, read_token
from occ.forms.values import value_of

if TYPE_CHECKING:
    _ModelFormSet = forms.BaseModelFormSet[Any, Any]
    _RowForm = OptimisticLockFormMixin
else:
    _ModelFormSet = _RowForm = object

ROW_CHOICE = CHOICE_PREFIX + "row"


def guarded_formset(formset: type[Any], options: Mapping[str, Any]) -> type[Any]:
    """Return a subclass of a model formset class, fresh from its factory, whose rows carry tokens."""
    bases = (formset,) if issubclass(formset, GuardedFormSetMixin) else (GuardedFormSetMixin, formset)
    row = guarded_form(formset.form, options)
    row = type.__new__(type(row), row.__name__, (GuardedRowMixin, row), {"__module__": row.__module__})
    return type(formset.__name__, bases, {"__module__": formset.__module__, "form": row})


class GuardedRowMixin(_RowForm):
    """A row of a guarded formset; one whose object is gone keeps what was typed and asks what shall become of it."""

    #: What the page showed of the row's object, when that is gone.
    occ_gone: Token | None = None
    #: Whether the row's object is gone and nothing tells what it was: there is nothing to write to.
    occ_absent: bool = False

    def mark_gone(self, token: Token | None, key_name: str) -> None:
        """Treat the row as one whose object was deleted after the page was shown."""
        self.occ_gone, self.occ_absent = token, token is None
        self.fields[key_name] = forms.Field(required=False, widget=forms.HiddenInput)
        for name, stored in (token.base if token else {}).items():
            if name in self.fields and name != key_name:
                try:
                    self.initial[name] = value_of(self, name, stored)
                except (LookupError, ValueError):
                    continue

    @property
    def occ_typed(self) -> list[str]:
        """The fields that this person changed in a row whose object is gone."""
        if self.occ_gone is None:
            return []
        return [name for name in self.changed_data if name in self.occ_gone.base]

    @property
    def occ_row_choice(self) -> str:
        """What was chosen for a row whose object is gone: ``"leave"`` or ``"again"``, or nothing yet."""
        return str(self.data.get(self.add_prefix(ROW_CHOICE), ""))

    @property
    def occ_added_again(self) -> bool:
        """Whether the row shall be saved as a new one."""
        return self.occ_row_choice == "again" and self.has_changed()

    @property
    def occ_left_out(self) -> bool:
        """Whether there is nothing to do for the row: its object is gone, and nobody wants it back."""
        return self.occ_absent or bool(self.occ_gone and (not self.occ_typed or self.occ_row_choice == "leave"))

    def has_changed(self) -> bool:
        return not self.occ_left_out and super().has_changed()

    def full_clean(self) -> None:
        super().full_clean()
        if self.occ_left_out:
            self.errors.clear()
            self.cleaned_data = {}
        elif self.occ_gone and not self.occ_added_again:
            self.add_error(None, ValidationError(_("This row was deleted meanwhile."), code="conflict"))

    def _refusal(self, comparison: Comparison | None) -> Reason | None:
        # A row that nobody touched is not written, however old the page is.
        touched = comparison is None or comparison.mine or comparison.clashes or comparison.lost
        return super()._refusal(comparison) if touched else None


class GuardedFormSetMixin(_ModelFormSet):
    """Adds the tokens, keeps rows and objects together, and says what is stale."""

    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        if TOKEN_FIELD in form.fields:
            # Every template shows a row's key, without which Django would not find its object.
            key = form.fields[form.instance._meta.pk.name]
            key.widget = _beside_token(key.widget, form)

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        # Private in Django, and the only place where a row and its object are brought together.
        form = super()._construct_form(i, **kwargs)  # type: ignore[misc]
        if self.is_bound and i < self.initial_form_count() and form.instance._state.adding:
            key_name = form.instance._meta.pk.name
            token = read_token(self.data.get(form.add_prefix(TOKEN_FIELD)))
            if token is not None and token.model == form.instance._meta.label:
                form.mark_gone(token, key_name)
                form.fields[TOKEN_FIELD] = forms.Field(required=False, widget=forms.HiddenInput, label="")
                form.fields[key_name].widget = _beside_token(form.fields[key_name].widget, form)
            elif form.add_prefix(key_name) not in self.data:
                form.mark_gone(None, key_name)
        return form

    def get_queryset(self) -> Any:
        """Return the objects; once the forms of a submit are built, in the order of these, and None for gone ones."""
        if not self.is_bound or "forms" not in self.__dict__:
            return super().get_queryset()
        return [None if form.instance._state.adding else form.instance for form in self.initial_forms]

    def clean(self) -> None:
        super().clean()
        stale = self.occ_stale_rows()
        if stale:
            names = get_text_list([str(form.instance) for form in stale], _("and"))
            message = ngettext(
                "Nothing was saved: a row was changed after you opened this page: %(rows)s.",
                "Nothing was saved: %(count)d rows were changed after you opened this page: %(rows)s.",
                len(stale),
            )
            raise ValidationError(message % {"rows": names, "count": len(stale)}, code="conflict")

    def is_valid(self) -> bool:
        # Django does not look at the errors of rows that are to be deleted.
        return super().is_valid() and not self.occ_stale_rows()

    def occ_stale_rows(self) -> list[Any]:
        """Return the rows that were changed meanwhile and that this person changed, or wants to delete."""
        rows = []
        for form in self.initial_forms:
            if form.conflict is None and self._deletes(form) and form.comparison is not None and form.comparison.stale:
                form.refuse_deletion()
            if form.conflict is not None:
                rows.append(form)
        return rows

    def occ_gone_rows(self) -> list[Any]:
        """Return the rows that somebody else deleted and that this person changed."""
        return [form for form in self.initial_forms if form.occ_gone and form.occ_typed]

    def save_new_objects(self, commit: bool = True) -> list[Any]:
        saved = super().save_new_objects(commit)
        for form in self.initial_forms:
            if form.occ_added_again and not self._deletes(form):
                new = self.save_new(form, commit=commit)
                self.new_objects.append(new)
                saved.append(new)
                if not commit:
                    self.saved_forms.append(form)
        return saved

    def _deletes(self, form: Any) -> bool:
        return self.can_delete and bool(form.data.get(form.add_prefix("DELETE")))


class _TokenBeside:
    """Renders a row's token with its key."""

    occ_form: Any

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        key: str = super().render(*args, **kwargs)  # type: ignore[misc]
        return SafeString(key + str(self.occ_form[TOKEN_FIELD]))


def _beside_token(widget: forms.Widget, form: Any) -> forms.Widget:
    rider = copy.copy(widget)
    rider.__class__ = type(type(widget).__name__, (_TokenBeside, type(widget)), {})
    rider.occ_form = form  # type: ignore[attr-defined]
    return rider

"""The form mixin: a hidden token, and a submit that is checked against the row and merged with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from django import forms
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models, router
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from occ.fields import VersionField, get_version, version_field
from occ.forms.comparison import Comparison, compare, now
from occ.forms.conflicts import FormConflict, Reason, Settled, describe, say_what_to_do, say_why, settle
from occ.forms.token import Token, read_token
from occ.forms.values import row_values, shortened, typed
from occ.snapshots import Snapshot

if TYPE_CHECKING:
    _MixinBase = forms.ModelForm[Any]
    _FormBase = forms.ModelForm[Any]
else:
    _MixinBase, _FormBase = object, forms.ModelForm

TOKEN_FIELD = "occ_token"  # noqa: S105


class TokenField(forms.Field):
    """The hidden field of the token. It shows a fresh one each time, is never required and never changed."""

    def __init__(self, form: OptimisticLockFormMixin) -> None:
        super().__init__(required=False, label="", widget=forms.HiddenInput(attrs={"autocomplete": "off"}))
        self._form = form

    def prepare_value(self, value: Any) -> str:
        return self._form.issue_token().sign()

    def has_changed(self, initial: Any, data: Any) -> bool:
        return False


class OptimisticLockFormMixin(_MixinBase):
    """Makes a model form refuse, or merge, a submit whose row was changed after the form was opened.

    Only forms of an existing object are guarded. Put it left of the form's other bases.
    """

    #: ``"ask"``: a stale submit is an error. ``"merge"``: it is saved when no field was changed on both sides.
    occ_conflict: Literal["ask", "merge"] = "ask"
    #: Fields that only make sense together, such as ``[("price", "currency")]``: they are merged as one.
    occ_merge_groups: Sequence[Sequence[str]] = ()
    #: Fields whose values are never shown nor put into the page. Password inputs are masked anyway.
    occ_masked_fields: Sequence[str] = ()

    # Set by the admin: whether the page lets people choose per field, and overwrite; and why the form is refused
    # whatever the comparison says.
    occ_offers_choices: bool = False
    occ_may_overwrite: bool = False
    occ_refused: Reason | None = None

    #: After validation: what kept the form from being saved; None when nothing did.
    conflict: FormConflict | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if version_field(self.instance) is None:
            raise ImproperlyConfigured(
                f"{type(self).__name__} guards {self.instance._meta.label}, which has no VersionField. "
                "Derive the model from occ.models.OptimisticLockModel, or leave the mixin out."
            )
        if not self.instance._state.adding:
            self.fields[TOKEN_FIELD] = TokenField(self)

    @cached_property
    def comparison(self) -> Comparison | None:
        """What the submit means for the row; None for a form that is not bound or adds an object."""
        if not self.is_bound or self.instance._state.adding:
            return None
        token = read_token(self.data.get(self.add_prefix(TOKEN_FIELD)))
        if token is not None and not token.is_of(self.instance):
            token = None
        using = self.instance._state.db or router.db_for_write(type(self.instance), instance=self.instance)
        self._snapshot = Snapshot.take(self.instance, using)
        comparison = compare(self, token, get_version(self.instance))
        if token is not None and comparison.stale and not self._merges(comparison):
            # Whatever is saved nevertheless is compared with what the page showed.
            setattr(self.instance, cast(VersionField, version_field(self.instance)).attname, token.version)
        return comparison

    @cached_property
    def changed_data(self) -> list[str]:
        """The names of the fields that this person changed."""
        comparison = self.comparison
        return super().changed_data if comparison is None else comparison.mine

    def full_clean(self) -> None:
        comparison = self.comparison
        key = self.instance.pk
        super().full_clean()
        if not self.is_bound:
            return
        if comparison is not None and self.instance.pk != key:
            self._keep_key(key)
        self.cleaned_data.pop(TOKEN_FIELD, None)
        if comparison is not None:
            self._keep_untouched(comparison)
        reason = self._refusal(comparison)
        if reason is not None:
            self._refuse(reason)
        elif comparison is not None and self.errors:
            self._restore_row(comparison)  # a page whose fields depend on the object is shown again with those it had

    def refuse_deletion(self) -> None:
        """Refuse a submit that wants to delete the object, because its row was changed meanwhile."""
        if self.conflict is None:
            self._refuse("changed")

    def _refuse(self, reason: Reason) -> None:
        comparison = self.comparison
        self.conflict = describe(self, reason, comparison)
        if comparison is not None:
            self._restore_row(comparison)
        message = say_why(self, reason)
        self.add_error(None, ValidationError(message, code="conflict", params={"conflict": self.conflict}))
        for item in self.conflict.fields:
            if item.status == "choose" and item.name not in self.errors:
                self.add_error(item.name, ValidationError(say_what_to_do(self, item), code="conflict"))

    def issue_token(self) -> Token:
        """Return the token for showing this form: what it starts from, and what is still to be decided."""
        if self.comparison is not None:
            return self.comparison.next_token(self)
        version = get_version(self.instance)
        return Token(
            model=self.instance._meta.label,
            pk=str(self.instance.pk),
            version=version,
            base=shortened(self, row_values(self)),
            opened=now(),
            opened_version=version,
        )

    def writes_row(self) -> bool:
        """Tell whether saving has anything to write: an edit, or a value that other code put into the instance."""
        if self.comparison is None or self.changed_data:
            return True
        return bool(self._snapshot.changed(self.instance))

    def was_written(self) -> bool:
        """Tell whether the row was written since the form was checked, by this form's save or otherwise."""
        comparison = self.comparison
        if comparison is None:
            return True
        before = {comparison.row_version, comparison.token.version if comparison.token else comparison.row_version}
        return get_version(self.instance) not in before

    def settled(self) -> Settled | None:
        """Return how the conflict that went before this submit was settled; None when there was none."""
        comparison = self.comparison
        if comparison is None or comparison.token is None:
            return None
        return settle(comparison, comparison.token)

    def merged_labels(self) -> list[str]:
        """Return the labels of the fields in which others' values were kept without asking."""
        if self.comparison is None or not self.comparison.stale or not self.comparison.mine:
            return []
        return [str(self.fields[name].label or name) for name in self.fields if name in self.comparison.kept]

    def save(self, commit: bool = True) -> Any:
        """Save as ``ModelForm.save`` does, unless there is nothing to write.

        Raises:
            Conflict: somebody wrote after the form was validated.
        """
        if commit and not self.errors and not self.writes_row():
            return self.instance
        return super().save(commit)

    def is_masked(self, name: str) -> bool:
        """Tell whether the values of a field must not be shown."""
        return name in self.occ_masked_fields or isinstance(self.fields[name].widget, forms.PasswordInput)

    def _merges(self, comparison: Comparison) -> bool:
        return self.occ_conflict == "merge" and not comparison.clashes and self.occ_refused is None

    def _refusal(self, comparison: Comparison | None) -> Reason | None:
        if comparison is None or self.occ_refused is not None:
            return self.occ_refused
        if comparison.token is None:
            return "untrusted"
        if comparison.clashes or comparison.lost:
            return "changed"
        if comparison.stale and comparison.mine and not self._merges(comparison):
            return "changed"
        return None

    def _keep_untouched(self, comparison: Comparison) -> None:
        """Give the instance back what it was loaded with in fields nobody touched.

        A widget may lose what it does not show (microseconds, blanks at the ends, LF line ends); that is no edit.
        Values that the form's own cleaning made up are left alone.
        """
        for name in comparison.current:
            model_field = self.instance._meta.get_field(name)
            if name in comparison.mine or name in self.errors or name not in self.cleaned_data:
                continue
            if not isinstance(model_field, models.Field) or model_field.many_to_many or model_field.is_relation:
                continue
            form_field = self.fields[name]
            try:
                untouched = form_field.clean(typed(self, name)) == self.cleaned_data[name]
            except (TypeError, ValidationError):  # file fields want their initial value, and have no such trouble
                continue
            if untouched:
                setattr(self.instance, model_field.attname, comparison.loaded[name])

    def _keep_key(self, key: Any) -> None:
        """Refuse another primary key: the row would stay, and another one be written."""
        self.instance.pk = key
        options = self.instance._meta
        message = _("This identifies the %(name)s and cannot be changed.") % {"name": options.verbose_name}
        self.add_error(options.pk.name if options.pk.name in self.fields else None, ValidationError(message))

    def _restore_row(self, comparison: Comparison) -> None:
        """Let the instance say again what its row says, since nothing of the form will be saved."""
        for name, value in comparison.loaded.items():
            model_field = self.instance._meta.get_field(name)
            if isinstance(model_field, models.Field) and not model_field.many_to_many:
                setattr(self.instance, model_field.attname, value)


class OptimisticLockModelForm(OptimisticLockFormMixin, _FormBase):
    """A ``ModelForm`` that does not overwrite what others saved after it was opened.

    It shows one hidden field more (``{{ form }}`` includes it; templates that list fields one by one add
    ``{{ form.occ_token }}``). A stale submit is a form error; ``form.conflict`` says why, with a ``FieldDiff`` for
    every field that differs, and the form can be submitted again against the newer version. Fields that only others
    changed show their value then, so a second submit takes nothing back.

    ``save()`` still raises ``occ.Conflict`` when somebody writes between validation and the UPDATE.
    """

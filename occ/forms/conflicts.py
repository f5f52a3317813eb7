"""What a conflict says: the three values of each field, whose counts, and the sentences for it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from django import forms
from django.utils.translation import gettext as _

from occ.diffs import FieldDiff
from occ.forms.comparison import Comparison, group_of
from occ.forms.token import Stored, Token, same
from occ.forms.values import typed, value_of

if TYPE_CHECKING:
    from occ.forms.guard import OptimisticLockFormMixin

Status = Literal["choose", "theirs", "mine", "same"]
Reason = Literal["changed", "deleted", "untrusted", "raced"]


@dataclass(frozen=True, kw_only=True)
class FieldConflict:
    """One field of a form's conflict: the three values, and whose counts.

    Attributes:
        diff: the values; ``base`` is None where only a digest of it was kept.
        status: ``"choose"`` (both changed it), ``"theirs"``, ``"mine"``, or ``"same"`` (both to the same value).
        group: the first field of the merge group that is decided as one, else the field's own name.
        base_known: whether ``diff.base`` is the value that the person opened.
    """

    diff: FieldDiff
    status: Status
    group: str
    base_known: bool = True

    @property
    def name(self) -> str:
        """The field's name."""
        return self.diff.name


@dataclass(frozen=True, kw_only=True)
class FormConflict:
    """Why a submitted form was not saved.

    Attributes:
        reason: ``"changed"``, ``"deleted"``, ``"untrusted"`` (no valid token came with the form) or ``"raced"``
            (somebody wrote between validation and the UPDATE, and the fields on the form do not show it).
        expected: the version that the form was opened at; None when that is not known.
        actual: the version of the row now; None when it is gone.
        opened: when it was opened; None when that is not known.
        fields: the fields that differ.
        lost: what was typed into fields that the form has no more, because they depend on the object; by name.
    """

    reason: Reason
    expected: int | None
    actual: int | None
    opened: datetime.datetime | None = None
    fields: tuple[FieldConflict, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def diffs(self) -> list[FieldDiff]:
        """The three values of every field that differs."""
        return [item.diff for item in self.fields]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """Whose values a save kept, of those that others changed after the form was opened.

    Attributes:
        opened_version: the version that the person opened.
        version: the version that was saved upon.
        overwritten: the fields in which this person's value replaced the others'.
        kept: the fields in which the others' value stayed.
    """

    opened_version: int
    version: int
    overwritten: list[str]
    kept: list[str]


def describe(form: OptimisticLockFormMixin, reason: Reason, comparison: Comparison | None) -> FormConflict:
    """Return the conflict of a form that is refused for ``reason``."""
    if comparison is None:
        return FormConflict(reason=reason, expected=None, actual=None)
    token = comparison.token
    return FormConflict(
        reason=reason,
        expected=None if token is None else token.opened_version,
        actual=comparison.row_version,
        opened=None if token is None else token.opened_at,
        fields=tuple(_field_conflicts(form, comparison)),
        lost=comparison.lost,
    )


def settle(comparison: Comparison, token: Token) -> Settled | None:
    """Return whose values a save keeps, of those that others changed; None when they changed none."""
    theirs = [name for name, value in comparison.current.items() if not same(comparison.opened_value(name), value)]
    if not theirs or not comparison.mine:
        return None
    return Settled(
        opened_version=token.opened_version,
        version=comparison.row_version,
        overwritten=[name for name in theirs if name in comparison.mine],
        kept=[name for name in theirs if name not in comparison.mine],
    )


def say_why(form: OptimisticLockFormMixin, reason: Reason) -> str:
    """Return the sentence that tells why a form was not saved."""
    name = form.instance._meta.verbose_name
    match reason:
        case "deleted":
            return _("Not saved: this %(name)s was deleted after you opened it.") % {"name": name}
        case "untrusted":
            return _(
                "Not saved: this page did not say which version of the %(name)s you opened. Compare your values "
                "with the current ones and save again."
            ) % {"name": name}
        case "raced":
            return _("Not saved: somebody else wrote at the same moment. Please save again.")
    if form.comparison is not None and not form.comparison.stale:
        if form.comparison.lost and not form.comparison.clashes:
            return _("Not saved yet: you can no longer change everything that you changed.")
        return _("Not saved yet: some fields still need your choice.")
    return _("Not saved yet: this %(name)s was changed after you opened it.") % {"name": name}


def say_what_to_do(form: OptimisticLockFormMixin, item: FieldConflict) -> str:
    """Return the sentence at a field that needs a choice."""
    if form.occ_offers_choices:
        return _("Choose a value above, or type a new one here.")
    if form.is_masked(item.name):
        return _("This was changed meanwhile.")
    return _("This was changed meanwhile; the current value is: %(value)s") % {"value": item.diff.theirs}


def _field_conflicts(form: OptimisticLockFormMixin, comparison: Comparison) -> Iterator[FieldConflict]:
    for name, current in comparison.current.items():
        opened = comparison.opened_value(name)
        status: Status
        if name in comparison.clashes:
            status = "choose"
        elif name in comparison.agreed:
            status = "same"
        elif name in comparison.mine:
            status = "mine"
        elif not same(opened, current):
            status = "theirs"
        else:
            continue
        base, base_known = _opened_value(form, name, opened)
        mine = base if name in comparison.kept and base_known else _submitted_value(form, name)
        yield FieldConflict(
            diff=FieldDiff(name=name, base=base, theirs=_plain(form, name, comparison.loaded[name]), mine=mine),
            status=status,
            group=group_of(form, name),
            base_known=base_known,
        )


def _opened_value(form: OptimisticLockFormMixin, name: str, opened: Stored) -> tuple[Any, bool]:
    try:
        return _plain(form, name, value_of(form, name, opened)), True
    except ValueError:
        return None, False


def _submitted_value(form: OptimisticLockFormMixin, name: str) -> Any:
    return _plain(form, name, form.cleaned_data[name]) if name in form.cleaned_data else typed(form, name)


def _plain(form: OptimisticLockFormMixin, name: str, value: Any) -> Any:
    """Return keys for related objects, so that the three values of a field compare."""
    form_field = form.fields[name]
    if isinstance(form_field, forms.ModelMultipleChoiceField):
        return sorted(str(getattr(item, "pk", item)) for item in value or ())
    if isinstance(form_field, forms.ModelChoiceField):
        return form_field.prepare_value(value)
    return value

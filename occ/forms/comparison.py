"""The three-way comparison behind a form: as it was opened, as the row is now, as it was submitted.

Called by the form mixin before the form is cleaned. It decides, field by field, whose value counts, and puts that
into the form's data and initial values; so that everything after it (cleaning, ``changed_data``, rendering, saving)
is plain Django.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ValidationError
from django.db import models

from occ.forms.token import Stored, Token, fingerprint, same, shorten, store
from occ.forms.values import (
    differs_from_row,
    edited_fields,
    is_file,
    no_longer_editable,
    put,
    row_values,
    shortened,
    shown,
    typed,
    value_of,
    was_left_out,
    was_sent,
)

if TYPE_CHECKING:
    from occ.forms.guard import OptimisticLockFormMixin

CHOICE_PREFIX = "occ_choice_"
OVERWRITE = "_occ_overwrite"


@dataclass
class Comparison:
    """What was found out about one submitted form.

    Attributes:
        token: what the page showed; None when it does not say.
        row_version: the version of the row as read for this request.
        current: the row's values, as the token would store them.
        base: the values at ``token.version``.
        mine: the names of the fields that this person changed.
        kept: the names of the fields that others changed, and that this person did not.
        agreed: the names of the fields that both changed to the same value.
        clashes: the names of the fields that need a choice.
        lost: what was typed into fields that the form has no more, by name.
        loaded: the row's values, as the instance was loaded with them.
    """

    token: Token | None
    row_version: int
    current: dict[str, Stored]
    loaded: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Stored] = field(default_factory=dict)
    mine: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    agreed: set[str] = field(default_factory=set)
    clashes: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)

    @property
    def stale(self) -> bool:
        """Whether the row is no longer at the version that the page showed."""
        return self.token is None or self.token.version != self.row_version

    def opened_value(self, name: str) -> Stored:
        """Return the value of a field when the person first opened the form."""
        if self.token is None:
            return {}
        return self.token.earlier.get(name, self.base.get(name))

    def next_token(self, form: OptimisticLockFormMixin) -> Token:
        """Return the token for showing the form again: against the row as it is now."""
        model, pk = form.instance._meta.label, str(form.instance.pk)
        base = shortened(form, self.current)
        if self.token is None:
            return Token(
                model=model,
                pk=pk,
                version=self.row_version,
                base=base,
                opened=now(),
                opened_version=self.row_version,
                pending=self._pending(form),
            )
        listed = {name for name in self.base if not same(self.opened_value(name), self.current[name])}
        return Token(
            model=model,
            pk=pk,
            version=self.row_version,
            base=base,
            opened=self.token.opened,
            opened_version=self.token.opened_version,
            earlier={
                name: shorten(self.opened_value(name), masked=True) if form.is_masked(name) else self.opened_value(name)
                for name in sorted(listed | self.clashes)
                if name in self.base
            },
            pending=self._pending(form),
        )

    def _pending(self, form: OptimisticLockFormMixin) -> dict[str, str]:
        if not form.occ_offers_choices:
            return {}
        return {name: fingerprint(shown(form, name)) for name in sorted(self.clashes)}


def now() -> float:
    """Return the time in seconds since 1970, as a token records it: finely enough to tell a save from the next page."""
    return round(datetime.datetime.now(datetime.UTC).timestamp(), 3)


def compare(form: OptimisticLockFormMixin, token: Token | None, row_version: int) -> Comparison:
    """Compare a bound form with its row and give each field the value that counts."""
    current = row_values(form)
    loaded = {name: form.initial[name] for name in current}
    comparison = Comparison(token=token, row_version=row_version, current=current, loaded=loaded)
    if token is None:
        for name in current:
            if was_left_out(form, name):  # nothing tells what the page had, but nobody emptied this
                put(form, name, loaded[name])
        comparison.mine = edited_fields(form)
        comparison.clashes = {name for name in comparison.mine if name in current}
        return comparison
    comparison.base = {name: token.base.get(name, value) for name, value in current.items()}
    comparison.lost = no_longer_editable(form, token.base, current)
    for name in current.keys() - token.base.keys():
        if not was_sent(form, name):  # the page had no such input: nobody emptied it
            put(form, name, loaded[name])
    theirs = {name for name, value in current.items() if not same(comparison.base[name], value)}
    for name in theirs:
        _start_from(form, name, comparison)
    mine = set(edited_fields(form))
    undecided, reset = _choices(form, token)
    mine -= reset
    comparison.kept = theirs - mine
    comparison.agreed = {name for name in theirs & mine if not differs_from_row(form, name, loaded)}
    mine -= comparison.agreed
    comparison.clashes = (theirs & mine) | undecided
    _extend_by_groups(form, comparison, theirs, mine)
    if _overwrites(form, comparison):
        comparison.clashes = set()
        _take_back(form, token, mine)
        mine = set(edited_fields(form))
    for name in comparison.kept | reset:
        put(form, name, loaded[name])
    comparison.mine = [name for name in form.fields if name in mine]
    return comparison


def _start_from(form: OptimisticLockFormMixin, name: str, comparison: Comparison) -> None:
    """Make the value that the person opened the field's initial one, so that only their own edits count as changes."""
    if is_file(form, name):  # whatever is sent is an edit, and a form field without one means the row's file
        return
    stored = comparison.base[name]
    try:
        if isinstance(stored, dict):
            submitted = typed(form, name)
            model_field = cast("models.Field[Any, Any]", form.instance._meta.get_field(name))
            for value in (submitted, form.fields[name].to_python(submitted)):
                if same(store(model_field, value), stored):
                    # Nobody touched it, so what came back is what was opened.
                    comparison.base[name] = store(model_field, value)
                    form.initial[name] = value
            return
        form.initial[name] = value_of(form, name, stored)
    except (AttributeError, TypeError, ValueError, ValidationError):
        return  # what was opened stays unknown: a value that differs from the row's counts as an edit


def _choices(form: OptimisticLockFormMixin, token: Token) -> tuple[set[str], set[str]]:
    """Return the fields still to be decided, and those for which the row's value was chosen."""
    undecided, reset = set(), set()
    for name, fingerprint_then in token.pending.items():
        if name not in form.fields:
            continue
        choice = form.data.get(form.add_prefix(CHOICE_PREFIX + group_of(form, name)))
        submitted = typed(form, name)
        lost = submitted is None and is_file(form, name)  # browsers do not keep a file
        edited = not lost and fingerprint(shown(form, name)) != fingerprint_then
        if choice == "theirs" and not edited:
            reset.add(name)
        elif lost or not (choice == "mine" or (edited and choice is None)):
            undecided.add(name)
    return undecided, reset


def _extend_by_groups(form: OptimisticLockFormMixin, comparison: Comparison, theirs: set[str], mine: set[str]) -> None:
    """Decide fields together that only make sense together: one side's change of any clashes with the other's."""
    for group in form.occ_merge_groups:
        names = set(group) & comparison.current.keys()
        if comparison.stale and names & theirs and names & mine:
            changed = names & (theirs | mine) - comparison.agreed
            comparison.clashes |= changed
            comparison.kept -= changed


def group_of(form: OptimisticLockFormMixin, name: str) -> str:
    """Return the name under which a field is decided: the first of its merge group, else its own."""
    return next((group[0] for group in form.occ_merge_groups if name in group), name)


def _overwrites(form: OptimisticLockFormMixin, comparison: Comparison) -> bool:
    """Tell whether everything shall be overwritten, which takes a page that showed the row as it is."""
    return form.occ_may_overwrite and not comparison.stale and OVERWRITE in form.data


def _take_back(form: OptimisticLockFormMixin, token: Token, mine: set[str]) -> None:
    """Give the fields that were kept as theirs the value again that this person's form had."""
    for name, stored in token.earlier.items():
        if name in form.fields and name not in token.pending and name not in mine and not isinstance(stored, dict):
            put(form, name, value_of(form, name, stored))

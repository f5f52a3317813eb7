"""What a person sees of a conflict: a banner, a table of the three values per field, and the ways out.

It takes the place of the form's non-field errors, which every template of a change form shows; so it depends on no
template of the admin, and none depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import models
from django.forms.utils import ErrorList
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils import translation
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from occ.admin.formsets import ROW_CHOICE
from occ.admin.history import Change, changes_of_row, changes_since
from occ.admin.submit import current_submit
from occ.admin.wording import in_words, when_in_words, with_changes_marked
from occ.forms import TOKEN_FIELD, FieldConflict, FormConflict, OptimisticLockFormMixin, Token
from occ.forms.comparison import CHOICE_PREFIX, OVERWRITE
from occ.forms.conflicts import Status
from occ.forms.token import LONGEST

if TYPE_CHECKING:
    from occ.admin.changeform import ChangeFormMixin

HIDDEN = "••••••"
_ORDER: tuple[Status, ...] = ("choose", "theirs", "mine", "same")


class PanelErrors(ErrorList):
    """An error list whose first entry is a panel. Rendered as a whole it is the panel, then the other errors."""

    def __init__(self, panel: SafeString, others: list[Any]) -> None:
        super().__init__([panel], error_class="nonfield")
        self._panel = panel
        self._others = ErrorList(others, error_class="nonfield")

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        return SafeString(self._panel + (self._others.render(*args, **kwargs) if self._others else ""))

    __str__ = render
    __html__ = render


@dataclass(frozen=True, kw_only=True)
class Row:
    """One field in the table."""

    name: str
    label: str
    status: str
    base: Any
    theirs: Any
    mine: Any
    theirs_short: bool
    mine_short: bool
    choice: str = ""
    chosen: str = ""
    decided_with: str = ""
    untouched: bool = False
    who: str = ""


def show(model_admin: ChangeFormMixin, request: HttpRequest, form: OptimisticLockFormMixin) -> None:
    """Put the panel of a form's conflict in the place of its non-field errors."""
    conflict = form.conflict
    if conflict is None:
        return
    submit = current_submit(request)
    deleted = None if submit is None else submit.deleted
    changes = _changes(form, conflict, deleted)
    context = {
        **_table(form, conflict, model_admin.get_empty_value_display(), changes),
        "conflict": conflict,
        "title": _conflict_message(form),
        "opened_at": conflict.opened and when_in_words(conflict.opened),
        "changes": changes,
        "lost": _lost(form, conflict),
        "opts": model_admin.opts,
        "verbose_name": model_admin.opts.verbose_name,
        "may_add": model_admin.has_add_permission(request),
        "may_overwrite": form.occ_may_overwrite and conflict.reason == "changed",
        "overwrite": OVERWRITE,
        "reload_url": request.get_full_path(),
        "deleted": deleted,
        "token_field": TOKEN_FIELD,
        "lost_files": _lost_files(form),
    }
    _replace_errors(form, render_to_string("occ/conflict.html", context, request))


def show_rows(formset: Any, empty: str, *, may_add: bool) -> bool:
    """Put what is to be said about the rows of a guarded formset in the place of their errors.

    Returns whether there was anything to say.
    """
    stale = [form for form in formset.occ_stale_rows() if form.conflict.reason != "raced"]
    parent = getattr(formset, "instance", None)
    for form in stale:
        if parent is None:
            changes = _changes(form, form.conflict, None)
        else:
            changes = changes_of_row(parent, form.instance, form.conflict.opened)
        context = {
            **_table(form, form.conflict, empty, changes),
            "title": _conflict_message(form),
            "changes": changes,
            "lost": _lost(form, form.conflict),
            "lost_files": _lost_files(form),
        }
        _replace_errors(form, render_to_string("occ/conflict_row.html", context))
    gone = [form for form in formset.occ_gone_rows() if not form.occ_left_out and not form.occ_added_again]
    for form in gone:
        _replace_errors(form, render_to_string("occ/gone_row.html", _gone(form, parent, may_add)))
    return bool(formset.occ_stale_rows() or gone)


def _gone(form: Any, parent: models.Model | None, may_add: bool) -> dict[str, Any]:
    token = form.occ_gone
    if parent is None:
        changes = changes_since(form.instance, token.pk, token.opened_at, {})
    else:
        changes = changes_of_row(parent, form.instance, token.opened_at)
    return {
        "title": _("This %(name)s was deleted after you opened the page.") % {"name": form.instance._meta.verbose_name},
        "key": token.pk if parent is None else "",
        "changes": changes,
        "typed": [(capfirst(str(form[name].label)), _typed(form, name)) for name in form.occ_typed],
        "lost_files": _lost_files(form),
        "choice": "" if parent is None else form.add_prefix(ROW_CHOICE),  # the next page of a list is without the row
        "may_add": may_add,
    }


def _typed(form: Any, name: str) -> Any:
    return HIDDEN if form.is_masked(name) else form[name].data


def _lost_files(form: Any) -> list[str]:
    """Return the labels of the fields that a file was sent for, which no page can hold until the next submit."""
    return [capfirst(str(form[name].label)) for name in form.fields if form.add_prefix(name) in form.files]


def _lost(form: OptimisticLockFormMixin, conflict: FormConflict) -> list[tuple[str, str]]:
    """Return label and typed text of the fields that the form has no more."""
    told = []
    token = None if form.comparison is None else form.comparison.token
    for name, text in conflict.lost.items():
        label = capfirst(str(form.instance._meta.get_field(name).verbose_name))
        # A short value of which the page kept a digest is that of a password input.
        digest = token is None or isinstance(token.base[name], dict)
        secret = name in form.occ_masked_fields or (digest and len(text) <= LONGEST)
        told.append((label, HIDDEN if secret else text))
    return told


def _table(form: OptimisticLockFormMixin, conflict: FormConflict, empty: str, changes: list[Change]) -> dict[str, Any]:
    who = _who_changed(changes)
    items = sorted(conflict.fields, key=lambda item: _ORDER.index(item.status))
    rows = [_row(form, item, empty, who) for item in items]
    to_choose = sum(row.status == "choose" for row in rows)
    return {"rows": rows, "to_choose": to_choose, "combined": len(rows) - to_choose}


def _who_changed(changes: list[Change]) -> dict[str, str]:
    """Return who changed which field last, by its label; nothing where the banner says it, or where it is not known."""
    if len({change.who for change in changes}) < 2 or not all(change.who for change in changes):
        return {}
    return {label: f"{change.who}, {change.when_in_words}" for change in changes for label in change.what}


def _conflict_message(form: OptimisticLockFormMixin) -> str:
    errors = form.errors[NON_FIELD_ERRORS].as_data()
    return next(str(message) for error in errors if error.code == "conflict" for message in error)


def _replace_errors(form: forms.BaseForm, panel: SafeString) -> None:
    others = [error for error in form.errors[NON_FIELD_ERRORS].as_data() if error.code != "conflict"]
    form.errors[NON_FIELD_ERRORS] = PanelErrors(panel, others)


def show_typed(model_admin: ChangeFormMixin, request: HttpRequest, token: Token) -> HttpResponse:
    """Return a page with what was typed into the form of an object that is gone, for who may not save it as new."""
    form = model_admin.get_form(request, None, change=False)(request.POST)
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": _("Not saved: this %(name)s was deleted after you opened it.")
        % {"name": model_admin.opts.verbose_name},
        "typed": [(field.label, _typed(form, field.name)) for field in form if field.data not in (None, "", [])],
        "changes": changes_since(model_admin.model(), token.pk, token.opened_at, {}),
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "occ/deleted.html", context, status=409)


def _changes(form: OptimisticLockFormMixin, conflict: FormConflict, deleted: Token | None) -> list[Change]:
    with translation.override(None):
        logged = {name: str(field.label or name) for name, field in form.fields.items()}
    visible = {logged[name]: str(field.label or name) for name, field in form.fields.items()}
    pk = form.instance.pk if deleted is None else deleted.pk
    opened = conflict.opened if deleted is None else deleted.opened_at
    known = conflict.actual is not None and conflict.expected is not None
    writes = cast(int, conflict.actual) - cast(int, conflict.expected) if known else None
    return changes_since(form.instance, pk, opened, visible, writes)


def _row(form: OptimisticLockFormMixin, item: FieldConflict, empty: str, who: Mapping[str, str]) -> Row:
    diff, masked = item.diff, form.is_masked(item.name)
    base: Any = in_words(form, item.name, diff.base, empty) if item.base_known else _("(not recorded)")
    theirs: Any = in_words(form, item.name, diff.theirs, empty)
    mine: Any = in_words(form, item.name, diff.mine, empty)
    marked_theirs = marked_mine = None
    if item.base_known and not masked and item.status in ("choose", "theirs", "mine"):
        marked_theirs = with_changes_marked(diff.base, diff.theirs)
        marked_mine = with_changes_marked(diff.base, diff.mine)
    asks = item.status == "choose"
    leads = item.group == item.name or item.group not in form.fields
    choice = form.add_prefix(CHOICE_PREFIX + item.group)
    return Row(
        name=item.name,
        label=capfirst(str(form[item.name].label)),
        status=item.status,
        base=HIDDEN if masked else base,
        theirs=HIDDEN if masked else marked_theirs or theirs,
        mine=HIDDEN if masked else marked_mine or mine,
        theirs_short=marked_theirs is None and len(str(theirs)) <= 60,
        mine_short=marked_mine is None and len(str(mine)) <= 60,
        choice=choice if asks and leads else "",
        chosen=str(form.data.get(choice, "")),
        untouched=item.status == "theirs" and (not item.base_known or diff.mine == diff.base),
        who="" if item.status == "mine" else who.get(str(form.fields[item.name].label or item.name), ""),
        decided_with="" if leads or not asks else capfirst(str(form[item.group].label)),
    )

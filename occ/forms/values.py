"""The values of a bound form: what its row holds, what was submitted, and how to replace the latter."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.forms import ClearableFileInput, FileField
from django.utils.datastructures import MultiValueDict

from occ.forms.submission import submit_value
from occ.forms.token import Stored, restore, same, shorten, store

if TYPE_CHECKING:
    from occ.forms.guard import OptimisticLockFormMixin


def row_values(form: OptimisticLockFormMixin) -> dict[str, Stored]:
    """Return the values that the instance was loaded with, of every form field that is a column or many-to-many."""
    options = form.instance._meta
    values: dict[str, Stored] = {}
    for name, form_field in form.fields.items():
        if name not in form.initial or form_field.disabled:
            continue
        try:
            model_field = options.get_field(name)
        except FieldDoesNotExist:
            continue
        if isinstance(model_field, models.Field) and not model_field.primary_key:
            try:
                values[name] = store(model_field, form.initial[name])
            except (AttributeError, TypeError, ValueError):  # a form field of another kind under the column's name
                continue
    return values


def shortened(form: OptimisticLockFormMixin, values: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the values as they may stand in a page."""
    return {name: shorten(value, masked=form.is_masked(name)) for name, value in values.items()}


def typed(form: OptimisticLockFormMixin, name: str) -> Any:
    """Return what was submitted for a field, before any cleaning."""
    return form.fields[name].widget.value_from_datadict(form.data, form.files, form.add_prefix(name))


def shown(form: OptimisticLockFormMixin, name: str) -> Any:
    """Return what was submitted for a field as the page shows it again; JSON, for one, is written anew."""
    submitted = typed(form, name)
    if is_file(form, name):
        return submitted
    return form.fields[name].prepare_value(form.fields[name].bound_data(submitted, form.initial.get(name)))


def was_sent(form: OptimisticLockFormMixin, name: str) -> bool:
    """Tell whether the page that was submitted had an input for a field, as far as what was sent shows it."""
    widget, html_name = form.fields[name].widget, form.add_prefix(name)
    if widget.value_omitted_from_data({}, {}, html_name):
        return not widget.value_omitted_from_data(form.data, form.files, html_name)
    return html_name in form.data or html_name in form.files  # of a box nobody ticked nothing is sent


def was_left_out(form: OptimisticLockFormMixin, name: str) -> bool:
    """Tell whether what was sent has no value for a field; never of inputs that send nothing when empty, and files."""
    widget, html_name = form.fields[name].widget, form.add_prefix(name)
    return not is_file(form, name) and widget.value_omitted_from_data(form.data, form.files, html_name)


def no_longer_editable(
    form: OptimisticLockFormMixin, base: Mapping[str, Stored], editable: Container[str]
) -> dict[str, str]:
    """Return what was typed into inputs that the form has no more, because its fields depend on the object or person.

    Args:
        form: the bound form.
        base: the values that the page started from.
        editable: the names of the fields that the form has now.
    """
    lost = {}
    for name, stored in base.items():
        key = form.add_prefix(name)
        parts = [text for part in (key, f"{key}_0", f"{key}_1") for text in _mutable(form).getlist(part)]
        if name in editable or not parts:
            continue
        text = " ".join(map(str, parts))
        if not _is_value(form.instance._meta.get_field(name), parts, text, stored):
            lost[name] = text
    return lost


def _is_value(model_field: Any, parts: list[Any], text: str, stored: Stored) -> bool:
    """Tell whether inputs held the value that is stored; False also where that cannot be told."""
    if isinstance(stored, list):
        return sorted(key for part in parts for key in str(part).split(",") if key) == stored
    if stored is None or model_field.is_relation:
        return text == (stored or "")
    form_field = model_field.formfield()
    try:
        return form_field is not None and same(store(model_field, form_field.to_python(text)), stored)
    except (AttributeError, TypeError, ValueError, ValidationError):
        return False


def is_file(form: OptimisticLockFormMixin, name: str) -> bool:
    """Tell whether a field is sent as a file, which no page can send again."""
    return isinstance(form.fields[name], FileField)


def put(form: OptimisticLockFormMixin, name: str, value: Any) -> None:
    """Replace what was submitted for a field by what a browser would send for ``value``.

    For a file that is nothing, which keeps the file of the row.
    """
    form_field = form.fields[name]
    html_name = form.add_prefix(name)
    data = _mutable(form)
    if is_file(form, name):
        form.files = form.files.copy()
        form.files.pop(html_name, None)
        if isinstance(form_field.widget, ClearableFileInput):
            data.pop(form_field.widget.clear_checkbox_name(html_name), None)
        return
    data.pop(html_name, None)
    for key, values in submit_value(form_field, html_name, value).lists():
        data.setlist(key, values)


def value_of(form: OptimisticLockFormMixin, name: str, stored: Stored) -> Any:
    """Return the value behind a stored one.

    Raises:
        ValueError: it is not known.
    """
    model_field = form.instance._meta.get_field(name)
    return restore(cast("models.Field[Any, Any]", model_field), stored)


def edited_fields(form: OptimisticLockFormMixin) -> list[str]:
    """Return the names of the fields whose submitted value is not the initial one; line ends do not count."""
    names = []
    for name, form_field in form.fields.items():
        if form_field.disabled:
            continue
        initial = form.get_initial_for_field(form_field, name)
        submitted = typed(form, name)
        if form_field.has_changed(initial, submitted) and not (
            isinstance(initial, str) and isinstance(submitted, str) and _lf(initial) == _lf(submitted)
        ):
            names.append(name)
    return names


def differs_from_row(form: OptimisticLockFormMixin, name: str, loaded: Mapping[str, Any]) -> bool:
    """Tell whether what was submitted for a field is another value than the row's."""
    return bool(form.fields[name].has_changed(loaded[name], typed(form, name)))


def _mutable(form: OptimisticLockFormMixin) -> MultiValueDict[str, Any]:
    """Return the form's data as a copy of its own, made on first use."""
    ours: MultiValueDict[str, Any] | None = form.__dict__.get("_occ_data")
    if ours is None:
        data: Any = form.data
        if isinstance(data, MultiValueDict):
            ours = data.copy()
        else:
            ours = MultiValueDict({key: value if isinstance(value, list) else [value] for key, value in data.items()})
        form.data = form.__dict__["_occ_data"] = ours
    return ours


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")

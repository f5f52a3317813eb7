"""A field's values in words: for the table of a conflict."""

from __future__ import annotations

import datetime
import difflib
import re
from typing import Any

from django import forms
from django.contrib.admin.utils import display_for_field, display_for_value
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.template.defaultfilters import linebreaksbr
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _

LONGEST = 2000  # characters of one value shown
MARKED_FROM = 20  # characters from which on changes inside a text are marked


def in_words(form: forms.BaseModelForm[Any], name: str, value: Any, empty: str) -> Any:
    """Return a field's value as the admin would show it, escaped."""
    field = form.fields[name]
    if isinstance(field, forms.ModelChoiceField):
        return _related(field, value, empty)
    if isinstance(field, forms.FileField):  # of the row, uploaded, a name in a token, or False: to be cleared
        return (value if isinstance(value, str) else getattr(value, "name", None)) or empty
    if isinstance(value, str) and len(value) > LONGEST:
        value = Truncator(value).chars(LONGEST)
    try:
        model_field = form.instance._meta.get_field(name)
    except FieldDoesNotExist:
        return display_for_value(value, empty)
    return field_in_words(model_field, value, empty)


def field_in_words(model_field: Any, value: Any, empty: str) -> Any:
    """Return the value of a column as the admin would show it, escaped."""
    if isinstance(value, bool) or not isinstance(model_field, models.Field):
        return _("Yes") if value else _("No")
    if isinstance(value, str) and not isinstance(model_field, models.CharField | models.TextField):
        shown = display_for_value(value, empty)  # typed, and not understood
    else:
        shown = display_for_field(value, model_field, empty)
    return linebreaksbr(shown) if value not in (None, "", [], ()) else empty


def when_in_words(moment: datetime.datetime) -> str:
    """Return the time of a moment today, else date and time, in the viewer's zone and language."""
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    today = timezone.localdate() if timezone.is_aware(moment) else datetime.date.today()
    return date_format(local, "TIME_FORMAT" if local.date() == today else "DATETIME_FORMAT")


def with_changes_marked(before: Any, after: Any) -> SafeString | None:
    """Return ``after`` with the words marked that differ from ``before``; None when that would not help a reader."""
    if not isinstance(before, str) or not isinstance(after, str) or before == after:
        return None
    if not MARKED_FROM <= max(len(before), len(after)) <= LONGEST:
        return None
    one, other = (re.findall(r"\w+|\W", text.replace("\r\n", "\n")) for text in (before, after))
    matcher = difflib.SequenceMatcher(a=one, b=other, autojunk=False)
    if matcher.ratio() < 0.3:
        return None
    parts = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        removed, added = "".join(one[start:end]), "".join(other[other_start:other_end])
        if tag == "equal":
            parts.append(format_html("{}", linebreaksbr(removed, autoescape=True)))
            continue
        if removed:
            parts.append(format_html("<del>{}</del>", linebreaksbr(removed, autoescape=True)))
        if added:
            parts.append(format_html("<ins>{}</ins>", linebreaksbr(added, autoescape=True)))
    return format_html_join("", "{}", ((part,) for part in parts))


def _related(field: forms.ModelChoiceField[Any], value: Any, empty: str) -> str:
    """Return the labels of related objects; those outside the field's choices are not this viewer's to see."""
    many = isinstance(field, forms.ModelMultipleChoiceField)
    keys = list(value or ()) if many else [value] if value not in (None, "") else []
    if not keys:
        return empty
    queryset: Any = field.queryset
    column = queryset.model._meta.get_field(field.to_field_name) if field.to_field_name else queryset.model._meta.pk
    possible = [key for key in keys if _may_be_stored(column, key)]
    rows = queryset.filter(**{f"{column.name}__in": possible})
    rows = rows if rows.ordered else rows.order_by("pk")  # the same on both sides: databases promise no order
    found = {getattr(item, column.attname): field.label_from_instance(item) for item in rows}
    hidden = len({str(key) for key in keys}) - len(found)
    return ", ".join([*found.values(), *[_("(not available)")] * hidden])


def _may_be_stored(column: Any, key: Any) -> bool:
    """Tell whether ``column`` can hold ``key``: databases refuse to look for numbers that are too large for it."""
    while column.remote_field:
        column = column.target_field
    try:
        column.run_validators(column.to_python(key))
    except (TypeError, ValueError, forms.ValidationError):
        return False
    return True

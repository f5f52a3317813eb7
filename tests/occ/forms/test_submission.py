"""What a browser would send for an input nobody touched, whatever the widget."""

import datetime
from typing import Any

import pytest
from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime

from occ.forms.submission import submit_value

CHOICES = [("a", "First"), ("b", "Second & more"), ("c", "Third")]
NOON = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("field", "value", "sent"),
    [
        (forms.CharField(), 'quotes " and <tags> &amp;', {"x": ['quotes " and <tags> &amp;']}),
        (forms.CharField(), None, {"x": [""]}),
        (forms.CharField(widget=forms.Textarea), "\ntwo\nlines & <b>", {"x": ["\ntwo\nlines & <b>"]}),
        (forms.IntegerField(), 5, {"x": ["5"]}),
        (forms.BooleanField(), True, {"x": ["on"]}),
        (forms.BooleanField(), False, {}),
        (forms.NullBooleanField(), None, {"x": ["unknown"]}),
        (forms.ChoiceField(choices=CHOICES), "b", {"x": ["b"]}),
        (forms.ChoiceField(choices=CHOICES), "gone", {"x": ["a"]}),
        (forms.ChoiceField(choices=CHOICES, widget=forms.RadioSelect), "b", {"x": ["b"]}),
        (forms.MultipleChoiceField(choices=CHOICES), ["a", "c"], {"x": ["a", "c"]}),
        (forms.MultipleChoiceField(choices=CHOICES), [], {}),
        (forms.MultipleChoiceField(choices=CHOICES, widget=forms.CheckboxSelectMultiple), ["c"], {"x": ["c"]}),
        (forms.SplitDateTimeField(widget=AdminSplitDateTime), NOON, {"x_0": ["2026-03-01"], "x_1": ["12:30:00"]}),
        (forms.FileField(), None, {}),
        (forms.JSONField(), {"a": ["<", "&"]}, {"x": ['{"a": ["<", "&"]}']}),
    ],
)
def test_a_value_as_sent(field: forms.Field, value: Any, sent: dict[str, list[str]]) -> None:
    assert dict(submit_value(field, "x", value).lists()) == sent

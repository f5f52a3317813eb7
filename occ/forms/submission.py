"""What a browser would send for an input nobody touched: turns a value into form data through its widget.

Needed to show another value than the submitted one in a bound form, for whatever widget, without knowing it.
"""

from __future__ import annotations

from html.parser import HTMLParser

from django.forms import Field
from django.utils.datastructures import MultiValueDict

_SENDS_NOTHING = frozenset({"button", "file", "image", "reset", "submit"})


def submit_value(field: Field, html_name: str, value: object) -> MultiValueDict[str, str]:
    """Return the form data for ``value`` in ``field``'s widget, by input name. File inputs send nothing."""
    parser = _Inputs()
    parser.feed(str(field.widget.render(html_name, field.prepare_value(value), attrs={"id": f"id_{html_name}"})))
    parser.close()
    return parser.data


class _Inputs(HTMLParser):
    """Collects names and values of the successful controls (HTML Living Standard, "constructing the entry list")."""

    def __init__(self) -> None:
        super().__init__()
        self.data: MultiValueDict[str, str] = MultiValueDict()
        self._select: str | None = None
        self._select_sends_first = False
        self._first_option: str | None = None
        self._option: tuple[str | None, bool] | None = None
        self._textarea: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        name = None if "disabled" in attributes else attributes.get("name")
        if tag == "input" and name:
            self._input(name, attributes)
        elif tag == "textarea":
            self._textarea, self._text = name, []
        elif tag == "select":
            self._select = name
            self._select_sends_first = "multiple" not in attributes and name is not None
            self._first_option = None
        elif tag == "option":
            self._end_option()
            self._option, self._text = (attributes.get("value"), "selected" in attributes), []

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            if self._textarea:
                # HTML drops one newline after the start tag, and Django's template writes one.
                self.data.appendlist(self._textarea, "".join(self._text).removeprefix("\n"))
            self._textarea = None
        elif tag == "option":
            self._end_option()
        elif tag == "select":
            self._end_option()
            if self._select and self._select_sends_first and self._first_option is not None:
                self.data.appendlist(self._select, self._first_option)
            self._select = None

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def _input(self, name: str, attributes: dict[str, str | None]) -> None:
        kind = (attributes.get("type") or "text").lower()
        if kind in _SENDS_NOTHING:
            return
        if kind in ("checkbox", "radio"):
            if "checked" in attributes:
                self.data.appendlist(name, attributes.get("value", "on") or "")
            return
        self.data.appendlist(name, attributes.get("value") or "")

    def _end_option(self) -> None:
        if self._option is None:
            return
        value, selected = self._option
        sent = "".join(self._text).strip() if value is None else value
        if selected and self._select:
            self.data.appendlist(self._select, sent)
            self._select_sends_first = False
        if self._first_option is None:
            self._first_option = sent
        self._option = None

"""Reads the forms of an HTML page the way a browser would submit them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Form:
    """One form of a page.

    Attributes:
        values: what it would send: the names of its fields and their values as the page has them.
        choices: the values that each group of radio buttons offers.
        buttons: the names of its submit buttons and their values.
    """

    values: dict[str, str] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)


class _FormReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._textarea: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        name = attributes.get("name", "")
        if tag == "form":
            self._form = Form()
            self.forms.append(self._form)
        if self._form is None or "disabled" in attributes:
            return
        if tag in ("input", "button") and name:
            self._read_input(self._form, name, attributes)
        elif tag == "textarea" and name:
            self._textarea = name
            self._form.values[name] = ""
        elif tag == "select" and name:
            self._select = name
        elif tag == "option" and self._select and "selected" in attributes:
            self._form.values[self._select] = attributes.get("value", "")

    def _read_input(self, form: Form, name: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "text")
        value = attributes.get("value", "on" if kind in ("checkbox", "radio") else "")
        if kind == "submit":
            form.buttons.setdefault(name, value)
            return
        if kind == "radio":
            form.choices.setdefault(name, []).append(value)
        if kind not in ("checkbox", "radio") or "checked" in attributes:
            form.values[name] = value

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._textarea is not None:
            self._form.values[self._textarea] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea" and self._form is not None and self._textarea is not None:
            # HTML drops a line feed right after the opening tag; Django's widget writes one.
            self._form.values[self._textarea] = self._form.values[self._textarea].removeprefix("\n")
            self._textarea = None
        elif tag == "select":
            self._select = None


def forms_of(page: str) -> list[Form]:
    """Return the forms of an HTML page in their order."""
    reader = _FormReader()
    reader.feed(page)
    reader.close()
    return reader.forms

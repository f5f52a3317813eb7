"""People at the admin, for tests: they open pages, see inputs and submit them, as a browser without JavaScript does."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse


class Page(HTMLParser):
    """What a browser makes of a page: the data of the form around the submit buttons, and the text."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response
        self.status: int = response.status_code
        self.html: str = response.content.decode()
        self.data: dict[str, Any] = {}
        self.buttons: dict[str, str] = {}
        self.radios: dict[str, list[str]] = {}
        self.text = ""
        self._form: str | None = None
        self._select: tuple[str, bool] | None = None
        self._area: str | None = None
        self._skip = 0
        self.feed(self.html)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        a = {key: value or "" for key, value in attrs}
        if tag in ("script", "style"):
            self._skip += 1
        if tag == "form":
            self._form = a.get("id", "form")
        if self._form in (None, "logout-form", "changelist-search") or "disabled" in a:
            return
        name, kind = a.get("name", ""), a.get("type", "text")
        if tag == "input" and kind == "submit":
            self.buttons[name] = a.get("value", "")
        elif tag == "input" and kind == "radio":
            self.radios.setdefault(name, []).append(a["value"])
            if "checked" in a:
                self.data[name] = a["value"]
        elif tag == "input" and kind == "checkbox":
            if "checked" in a:
                self._add(name, a.get("value", "on"))
        elif tag == "input" and name and kind != "file":
            self._add(name, a.get("value", ""))
        elif tag == "select":
            self._select = (name, "multiple" in a)
        elif tag == "option" and self._select and "selected" in a:
            select, multiple = self._select
            if multiple:
                self.data.setdefault(select, []).append(a["value"])
            else:
                self.data[select] = a["value"]
        elif tag == "textarea":
            self._area = name
            self.data[name] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._skip -= 1
        elif tag == "form":
            self._form = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea" and self._area:
            self.data[self._area] = self.data[self._area].removeprefix("\r\n").removeprefix("\n")
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area:
            # Browsers send CRLF line ends.
            self.data[self._area] += data.replace("\r\n", "\n").replace("\n", "\r\n")
        elif not self._skip:
            self.text += data

    def _add(self, name: str, value: str) -> None:
        if name in self.data and name not in self.radios:
            before = self.data[name]
            self.data[name] = [*(before if isinstance(before, list) else [before]), value]
        else:
            self.data[name] = value


@dataclass
class Editor:
    """A person with an account, a browser and one page open."""

    name: str
    permissions: tuple[str, ...] = ()
    superuser: bool = False
    client: Client = field(default_factory=Client)
    page: Page = field(init=False)
    url: str = ""
    site: str = "editors"

    def __post_init__(self) -> None:
        self.user = User.objects.create_user(self.name, is_staff=True, is_superuser=self.superuser)
        for permission in self.permissions:
            self.user.user_permissions.add(Permission.objects.get(codename=permission))
        self.client.force_login(self.user)

    def open(self, obj: Any, view: str = "change") -> Page:
        """Open the change form, or another page, of an object."""
        meta = obj._meta
        self.url = reverse(f"admin:{meta.app_label}_{meta.model_name}_{view}", args=[obj.pk], current_app=self.site)
        self.page = Page(self.client.get(self.url))
        return self.page

    def open_list(self, model: Any, query: str = "") -> Page:
        """Open a model's list."""
        meta = model._meta
        self.url = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist", current_app=self.site) + query
        self.page = Page(self.client.get(self.url))
        return self.page

    def submit(self, button: str = "_save", follow: bool = False, **typed: Any) -> Page:
        """Send the form of the open page with some inputs changed (None: left out), by one of its buttons."""
        data = {**self.page.data, **typed, **({button: "x"} if button else {})}
        data = {key: value for key, value in data.items() if value is not None}
        self.page = Page(self.client.post(self.url, data, follow=follow))
        return self.page

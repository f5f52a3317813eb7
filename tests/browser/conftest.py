"""Chromium on the admin: one browser, and a context of its own for every person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Page

from tests.library.models import Author, Book, Chapter


@pytest.fixture(autouse=True)
def admin_urls(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.browser.site"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.browser.site.strict_content_security_policy"]


@dataclass
class Person:
    """Somebody at a browser, logged in."""

    name: str
    context: BrowserContext
    page: Page
    site: str
    complaints: list[str]

    def open(self, obj: Any, view: str = "change", admin: str = "editors") -> Page:
        """Open a page of an object."""
        meta = obj._meta
        url = reverse(f"admin:{meta.app_label}_{meta.model_name}_{view}", args=[obj.pk], current_app=admin)
        self.page.goto(self.site + url)
        return self.page

    def open_list(self, model: Any, admin: str = "editors") -> Page:
        """Open a model's list."""
        meta = model._meta
        url = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist", current_app=admin)
        self.page.goto(self.site + url)
        return self.page

    def save(self, button: str = "Save") -> None:
        """Press a button of the form, the last one of its name."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button, exact=True).last.click()


@pytest.fixture
def person(browser: Browser, live_server: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Person]]:
    """Let somebody log in; keyword arguments are those of a browser context."""
    people: list[Person] = []

    def log_in(name: str, **options: Any) -> Person:
        user = User.objects.create_superuser(name)
        client = Client()
        client.force_login(user)
        context = browser.new_context(**options)
        context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}])
        context.set_default_timeout(15_000)
        page = context.new_page()
        someone = Person(name, context, page, live_server.url, [])
        page.on(
            "console",
            lambda message: someone.complaints.append(message.text) if _complains(message.text, message.type) else None,
        )
        page.on("pageerror", lambda error: someone.complaints.append(str(error)))
        people.append(someone)
        return someone

    yield log_in
    for someone in people:
        someone.context.close()
    assert [someone.complaints for someone in people] == [[] for _ in people]


def _complains(text: str, kind: str) -> bool:
    """Tell whether a console line is a complaint; that a page came with status 409 is what these tests are about."""
    return kind in ("error", "warning") and "status of 409" not in text


@pytest.fixture
def book(transactional_db: None) -> Book:
    author = Author.objects.create(name="Ursula")
    book = Book.objects.create(
        title="Book 1", stock=1, price="50.00", notes="Reprint planned for spring.", author=author
    )
    Chapter.objects.create(book=book, title="Ch 1", pages=10)
    Chapter.objects.create(book=book, title="Ch 2", pages=20)
    return book

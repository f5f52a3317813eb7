"""The live notice in Chromium."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Person
from tests.library.models import Book
from tests.occ.admin.site import BookAdmin

NOTICE = ".occ-notice"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BookAdmin, "occ_notice_seconds", 0.2)


def answers(page: Page, status: int) -> None:
    """Wait until the page's question was answered with this status."""
    with page.expect_response(lambda response: "occ-state" in response.url and response.status == status):
        pass


def test_it_tells_that_somebody_else_saved_and_not_before(person: Callable[..., Person], book: Book) -> None:
    ann, bob = person("ann"), person("bob")
    bob.open(book)
    answers(bob.page, 304)
    expect(bob.page.locator(NOTICE)).to_be_hidden()
    ann.open(book)
    ann.page.fill("[name=price]", "99.00")
    ann.save()

    expect(bob.page.locator(NOTICE)).to_contain_text("ann saved this book at")

    assert bob.page.locator(NOTICE).get_attribute("aria-live") == "polite"


def test_ones_own_save_is_no_news(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.open(book)
    answers(ann.page, 304)
    ann.page.fill("[name=price]", "99.00")

    ann.save("Save and continue editing")

    answers(ann.page, 304)
    expect(ann.page.locator(NOTICE)).to_be_hidden()


def test_it_goes_on_after_being_offline(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.open(book)
    answers(ann.page, 304)
    ann.context.set_offline(True)
    with ann.page.expect_event("requestfailed"):
        pass
    Book.objects.filter(pk=book.pk).update(price="99.00")
    ann.context.set_offline(False)

    expect(ann.page.locator(NOTICE)).to_contain_text("Another program changed this book.")

    ann.complaints[:] = [line for line in ann.complaints if "ERR_INTERNET_DISCONNECTED" not in line]


def test_a_hidden_tab_does_not_ask_and_asks_when_it_is_shown(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.page.clock.install(time=0)
    ann.page.clock.pause_at(1)  # from here on the page's timers wait for run_for()
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url) if "occ-state" in request.url else None)
    ann.open(book)
    hide = "hidden => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});"
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    ann.page.evaluate(hide, True)
    ann.page.clock.run_for(60_000)
    assert asked == []

    with ann.page.expect_response(lambda response: "occ-state" in response.url):
        ann.page.evaluate(hide, False)

    assert len(asked) == 1


def test_a_second_tab_of_the_same_person_is_told_so(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.open(book)
    first, ann.page = ann.page, ann.context.new_page()
    ann.open(book)
    ann.page.fill("[name=price]", "99.00")
    ann.save()

    expect(first.locator(NOTICE)).to_contain_text("You saved this book elsewhere at")


def test_it_asks_less_often_while_it_gets_no_answer(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.page.clock.install(time=0)
    ann.page.clock.pause_at(1)
    ann.page.route("**/occ-state/**", lambda route: route.fulfill(status=503))
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url) if "occ-state" in request.url else None)
    ann.open(book)
    for pause in (200, 400, 800):
        ann.page.clock.run_for(pause - 1)
        before = len(asked)

        with ann.page.expect_console_message(lambda message: "503" in message.text):
            ann.page.clock.run_for(1)

        assert (before, len(asked)) == ({200: 0, 400: 1, 800: 2}[pause], before + 1)
    ann.complaints.clear()


def test_it_stops_asking_once_the_form_is_sent(person: Callable[..., Person], book: Book) -> None:
    ann = person("ann")
    ann.page.clock.install(time=0)
    ann.page.clock.pause_at(1)
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url) if "occ-state" in request.url else None)
    ann.open(book)
    ann.page.evaluate(
        "document.getElementById('book_form').addEventListener('submit', event => event.preventDefault())"
    )

    ann.page.locator("input[name=_save]").last.click()

    ann.page.clock.run_for(60_000)
    assert asked == []

"""The browsable API in a browser: its forms save and delete under If-Match, and a conflict is told, not lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tests.library.models import Book

pytestmark = pytest.mark.urls("tests.occ.rest_framework.api")


@pytest.fixture
def book(db: None) -> Book:
    return Book.objects.create(title="Emma", stock=1)


class TestMarkup:
    def html(self, path: str) -> str:
        return Client().get(path, headers={"Accept": "text/html"}).content.decode()

    def test_the_put_form_carries_the_version(self, book: Book) -> None:
        assert f'<input type="hidden" name="version" value="{book.version}">' in self.html(f"/books/{book.pk}/")

    def test_the_page_knows_its_tag(self, book: Book) -> None:
        page = self.html(f"/books/{book.pk}/")

        assert '<script id="occ-etag" type="application/json">"\\"1-' in page
        assert "occ/api.js" in page

    def test_a_list_has_no_version_to_say(self, book: Book) -> None:
        page = self.html("/books/")

        assert 'name="version"' not in page
        assert '<script id="occ-etag" type="application/json">""</script>' in page

    def test_a_posted_form_saves_with_the_hidden_version(self, book: Book) -> None:
        form = "title=Sense&stock=3&price=0&notes=&details={}&version=1"

        answer = Client().put(f"/books/{book.pk}/", form, content_type="application/x-www-form-urlencoded")
        again = Client().put(f"/books/{book.pk}/", form, content_type="application/x-www-form-urlencoded")

        assert (answer.status_code, again.status_code) == (200, 409)


@pytest.mark.django_db(transaction=True)
class TestBrowser:
    @pytest.fixture
    def page(self, browser: Browser, live_server: LiveServer, transactional_db: None) -> Iterator[Page]:
        context = browser.new_context(base_url=live_server.url)
        yield context.new_page()
        context.close()

    @pytest.fixture
    def book(self, transactional_db: None) -> Book:
        return Book.objects.create(title="Emma", stock=1)

    def test_the_html_form_saves_again_and_again(self, page: Page, book: Book) -> None:
        page.goto(f"/books/{book.pk}/")
        for stock in ("5", "6"):
            page.get_by_role("link", name="HTML form").click()
            page.fill("#put-object-form input[name=stock]", stock)
            with page.expect_response(lambda response: response.request.method == "PUT") as answer:
                page.click("#put-object-form button:has-text('PUT')")
            assert answer.value.status == 200
            page.wait_for_selector(f'text="stock": {stock}')

        assert Book.objects.values_list("version", "stock").get() == (3, 6)

    def test_the_raw_form_saves_and_delete_deletes(self, page: Page, book: Book) -> None:
        page.goto(f"/books/{book.pk}/")
        page.get_by_role("link", name="Raw data").click()
        page.fill("#put-generic-content-form textarea", '{"stock": 7}')
        with page.expect_response(lambda response: response.request.method == "PATCH") as patched:
            page.click("#put-generic-content-form button:has-text('PATCH')")
        page.wait_for_selector('text="stock": 7')
        page.click("button:has-text('DELETE')")
        with page.expect_response(lambda response: response.request.method == "DELETE") as deleted:
            page.click("#deleteModal button:has-text('DELETE')")

        assert (patched.value.status, deleted.value.status) == (200, 200)
        assert deleted.value.request.headers["if-match"].startswith('"2-')
        assert not Book.objects.exists()

    def test_a_conflict_is_told_and_the_row_kept(self, page: Page, book: Book) -> None:
        page.goto(f"/books/{book.pk}/")
        Book.objects.filter(pk=book.pk).update(notes="meanwhile")
        page.get_by_role("link", name="HTML form").click()
        page.fill("#put-object-form input[name=stock]", "5")
        with page.expect_response(lambda response: response.request.method == "PUT") as answer:
            page.click("#put-object-form button:has-text('PUT')")
        page.wait_for_selector("text=has changed since you read it")

        assert answer.value.status == 409
        assert Book.objects.values_list("stock", "notes").get() == (1, "meanwhile")

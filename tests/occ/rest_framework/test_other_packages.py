"""Packages that projects put beside: error formatters, camel case, nested routes, CORS."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings
from django.urls import include, path
from rest_framework import routers, viewsets

from occ.rest_framework import OptimisticLockMixin
from tests.library.models import Book, Chapter

from .api import BookViewSet, ChapterSerializer, Open, ShelfViewSet
from .conftest import in_process

pytestmark = [pytest.mark.urls("tests.occ.rest_framework.test_other_packages"), pytest.mark.django_db]


class ChapterOfBookViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Chapter]):
    """Below its book, as nested routers have it."""

    serializer_class = ChapterSerializer

    def get_queryset(self) -> Any:
        return Chapter.objects.filter(book=self.kwargs["book_pk"]).order_by("pk")


router = routers.SimpleRouter()
router.register("books", BookViewSet)
router.register("shelves", ShelfViewSet)
urlpatterns = [path("", include(router.urls))]

try:
    from rest_framework_nested.routers import NestedSimpleRouter
except ImportError:
    pass
else:
    nested = NestedSimpleRouter(router, "books", lookup="book")
    nested.register("chapters", ChapterOfBookViewSet, "book-chapters")
    urlpatterns.append(path("", include(nested.urls)))


@pytest.fixture
def book() -> Book:
    return Book.objects.create(title="Emma", stock=1)


def test_drf_standardized_errors_formats_refusals_and_keeps_status_and_code(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("drf_standardized_errors", reason="pip install drf-standardized-errors")
    from drf_standardized_errors.handler import exception_handler

    monkeypatch.setattr(BookViewSet, "get_exception_handler", lambda self: exception_handler)
    url = f"/books/{book.pk}/"

    answers = [
        in_process("PUT", url, body={"title": "E"}, headers=headers)
        for headers in ({"If-Match": '"9"'}, {}, {"If-Match": "7"}, {"If-Match": '"1"', "If-None-Match": "*"})
    ]

    assert [(answer.status, [error["code"] for error in answer.json["errors"]]) for answer in answers] == [
        (409, ["stale_version"]),
        (428, ["precondition_required"]),
        (400, ["invalid_precondition"]),
        (412, ["precondition_failed"]),
    ]
    assert "it is now at version 1" in answers[0].json["errors"][0]["detail"]
    assert Book.objects.values_list("version", "title").get() == (1, "Emma")


def test_under_camel_case_the_version_in_the_body_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("djangorestframework_camel_case", reason="pip install djangorestframework-camel-case")
    from djangorestframework_camel_case.parser import CamelCaseJSONParser
    from djangorestframework_camel_case.render import CamelCaseJSONRenderer

    monkeypatch.setattr(BookViewSet, "parser_classes", (CamelCaseJSONParser,))
    monkeypatch.setattr(BookViewSet, "renderer_classes", (CamelCaseJSONRenderer,))
    book = Book.objects.create(title="Emma", stock=1)
    url = f"/books/{book.pk}/"

    read = in_process("GET", url)
    again = in_process("GET", url, headers={"If-None-Match": read.tag})
    stale = in_process("PUT", url, body={"title": "E", "version": 9})
    written = in_process("PUT", url, body={**read.json, "stock": 7})
    tagged = in_process("PATCH", url, body={"stock": 8}, headers={"If-Match": written.tag})

    assert [answer.status for answer in (read, again, stale, written, tagged)] == [200, 304, 409, 200, 200]
    assert stale.json["currentVersion"] == 1
    assert tagged.json["version"] == 3


def test_below_nested_routes_the_row_is_guarded_and_anothers_is_not_found(book: Book) -> None:
    pytest.importorskip("rest_framework_nested", reason="pip install drf-nested-routers")
    chapter = Chapter.objects.create(book=book, title="one")
    other = Book.objects.create(title="Sanditon")
    url, wrong = (f"/books/{pk}/chapters/{chapter.pk}/" for pk in (book.pk, other.pk))
    body = {"book": book.pk, "title": "one", "pages": 9}

    tag = in_process("GET", url).tag
    answers = [
        in_process("PUT", wrong, body=body, headers={"If-Match": tag}),
        in_process("PUT", wrong, body=body, headers={"If-Match": '"9"'}),
        in_process("PUT", url, body=body),
        in_process("PUT", url, body=body, headers={"If-Match": tag}),
        in_process("DELETE", url, headers={"If-Match": tag}),
    ]

    assert [answer.status for answer in answers] == [404, 404, 428, 200, 409]
    assert Chapter.objects.values_list("version", "pages").get() == (2, 9)


def test_the_cors_check_sees_the_real_package(settings: Any) -> None:
    pytest.importorskip("corsheaders", reason="pip install django-cors-headers")
    from corsheaders.defaults import default_headers

    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "corsheaders"]):
        before = {message.id for message in run_checks()}
        with override_settings(
            CORS_EXPOSE_HEADERS=["etag"], CORS_ALLOW_HEADERS=(*default_headers, "if-match", "if-none-match")
        ):
            after = {message.id for message in run_checks()}

    assert before & {"occ.W030", "occ.W031"} == {"occ.W030", "occ.W031"}
    assert after & {"occ.W030", "occ.W031"} == set()

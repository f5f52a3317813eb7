"""What the mixin does beside the conformance table: policies, permissions, actions, relations, statements."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework import generics, viewsets
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from benchmarks import http
from occ.exceptions import Conflict
from occ.rest_framework import OptimisticLockMixin, require_if_match
from occ.rest_framework.signals import unconditional_write
from occ.signals import conflict_detected
from tests.kit.costs import calls_of
from tests.library.models import Book, PlainBook, Tag

from .api import BookSerializer, BookViewSet, Open, PlainBookSerializer
from .conftest import Answer, in_process

pytestmark = [pytest.mark.urls("tests.occ.rest_framework.api"), pytest.mark.django_db]

BODY = {"title": "Emma", "stock": 7}


@pytest.fixture
def book() -> Book:
    return Book.objects.create(title="Emma", stock=1)


def tag_of(book: Book, path: str = "books") -> str:
    return in_process("GET", f"/{path}/{book.pk}/").tag


def put(book: Book, path: str = "books", body: Any = BODY, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return in_process("PUT", f"/{path}/{book.pk}/", body=body, headers=given)


def basic(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:secret".encode()).decode()


class TestPolicies:
    def test_rfc_9110s_status_can_be_had_for_a_stale_tag_but_not_for_a_stale_body(
        self, book: Book, settings: Any
    ) -> None:
        settings.OCC = {"STALE_STATUS": 412}

        header = put(book, If_Match='"9"')
        body = put(book, body={**BODY, "version": 9})

        assert (header.status, header.json["code"]) == (412, "stale_version")
        assert (body.status, body.json["code"]) == (409, "stale_version")

    def test_the_strong_comparison_can_be_had(self, book: Book, settings: Any) -> None:
        settings.OCC = {"WEAK_IF_MATCH": "reject"}
        tag = tag_of(book)

        answers = [put(book, If_Match=value) for value in (f"W/{tag}", f'{tag[:-1]}-gzip"', f'"zz", {tag}')]

        assert [answer.status for answer in answers] == [409, 409, 200]

    @pytest.mark.parametrize("where", ["settings", "view"])
    def test_an_api_can_be_moved_over_step_by_step(self, book: Book, settings: Any, where: str) -> None:
        settings.OCC = {"REQUIRE_IF_MATCH": where == "view"}
        path = "lenient" if where == "view" else "books"
        seen: list[tuple[Any, Any]] = []

        def receive(sender: Any, instance: Any, request: Any, **kwargs: Any) -> None:
            seen.append((sender, instance.pk))

        unconditional_write.connect(receive)
        try:
            without = put(book, path)
            named = put(book, path, body={**BODY, "stock": 8}, If_Match='"2"')
            stale = put(book, path, If_Match='"1"')
            malformed = put(book, path, If_Match="7")
        finally:
            unconditional_write.disconnect(receive)

        assert [answer.status for answer in (without, named, stale, malformed)] == [200, 200, 409, 400]
        assert seen == [(Book, book.pk)]

    def test_a_view_can_require_what_the_settings_do_not(self, book: Book, settings: Any) -> None:
        settings.OCC = {"REQUIRE_IF_MATCH": False}

        class Strict(BookViewSet):
            occ_require_if_match = True

        request = APIRequestFactory().delete("/")
        response = Strict.as_view({"delete": "destroy"})(request, pk=book.pk)

        assert response.status_code == 428

    def test_a_patch_may_leave_the_version_to_the_server(self, book: Book) -> None:
        patched = in_process("PATCH", f"/retrying/{book.pk}/", body={"stock": 5})
        replaced = put(book, "retrying")
        stale = in_process("PATCH", f"/retrying/{book.pk}/", body={"stock": 6}, headers={"If-Match": '"1"'})

        assert [answer.status for answer in (patched, replaced, stale)] == [200, 428, 409]


class TestPermissions:
    @pytest.fixture
    def owned(self) -> Book:
        User.objects.create_user("jane", password="secret")
        User.objects.create_user("mallory", password="secret")
        return Book.objects.create(title="Emma", notes="jane")

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
    def test_who_may_not_learns_nothing_by_any_tag(self, owned: Book, method: str) -> None:
        read = in_process("GET", f"/owned/{owned.pk}/", headers={"Authorization": basic("jane")})
        values = ["", "*", read.tag, '"9"', "garbage", f"W/{read.tag}"]

        def answers(headers: dict[str, str]) -> set[tuple[int, bytes, str | None]]:
            found = set()
            for name in ("If-Match", "If-None-Match"):
                for value in values:
                    given = {**headers, name: value}
                    answer = in_process(method, f"/owned/{owned.pk}/", body={"version": 1}, headers=given)
                    found.add((answer.status, answer.content, answer.headers.get("ETag")))
            return found

        anonymous, denied, throttled = (
            answers({}),
            answers({"Authorization": basic("mallory")}),
            answers({"Authorization": basic("jane"), "X-Throttle": "1"}),
        )

        assert [{status for status, _, _ in found} for found in (anonymous, denied, throttled)] == [{401}, {403}, {429}]
        assert [len(found) for found in (anonymous, denied, throttled)] == [1, 1, 1]
        assert read.status == 200

    def test_the_writes_are_attributed_to_the_user(self, owned: Book) -> None:
        seen: list[str] = []

        def receive(sender: Any, conflict: Conflict, **kwargs: Any) -> None:
            from occ.attribution import current_field_manager

            seen.append(current_field_manager())

        headers = {"Authorization": basic("jane"), "If-Match": '"9"'}
        conflict_detected.connect(receive)
        try:
            in_process("PUT", f"/owned/{owned.pk}/", body=BODY, headers=headers)
        finally:
            conflict_detected.disconnect(receive)

        assert seen == [f"user:{User.objects.get(username='jane').pk}"]


class TestConflicts:
    def test_a_stale_tag_is_reported_as_the_conflict_that_it_is(self, book: Book) -> None:
        seen: list[tuple[Any, ...]] = []

        def receive(sender: Any, conflict: Conflict, **kwargs: Any) -> None:
            seen.append((sender, conflict.pk, conflict.expected, conflict.actual, conflict.operation))

        conflict_detected.connect(receive)
        try:
            put(book, If_Match='"9"')
        finally:
            conflict_detected.disconnect(receive)

        assert seen == [(Book, book.pk, 9, 1, "PUT")]

    def test_a_write_overtaken_after_the_check_is_409(self, book: Book) -> None:
        class Overtaken(BookViewSet):
            def perform_update(self, serializer: Any) -> None:
                Book.objects.filter(pk=book.pk).update(notes="faster")
                serializer.save()

            def perform_destroy(self, instance: Any) -> None:
                Book.objects.filter(pk=book.pk).update(notes="faster still")
                instance.delete()

        view = Overtaken.as_view({"put": "update", "delete": "destroy"})
        factory = APIRequestFactory()
        put = view(factory.put("/", BODY, format="json", headers={"If-Match": '"1"'}), pk=book.pk)
        delete = view(factory.delete("/", headers={"If-Match": '"2"'}), pk=book.pk)

        assert (put.status_code, put.data["current_version"]) == (409, 2)
        assert (delete.status_code, delete.data["current_version"]) == (409, 3)
        assert "ETag" not in put

    def test_a_row_deleted_after_the_check_is_409_without_a_version(self, book: Book) -> None:
        class Overtaken(BookViewSet):
            def perform_update(self, serializer: Any) -> None:
                Book.objects.filter(pk=book.pk).delete()
                serializer.save()

        request = APIRequestFactory().put("/", BODY, format="json", headers={"If-Match": '"1"'})
        answer = Overtaken.as_view({"put": "update"})(request, pk=book.pk)

        assert answer.status_code == 409
        assert answer.data == {
            "detail": f"Book {book.pk} has been deleted since you read it.",
            "code": "stale_version",
            "current_version": None,
        }

    def test_what_is_left_open_is_tried_five_times_and_then_409(self, book: Book) -> None:
        attempts: list[int] = []

        class Hopeless(BookViewSet):
            occ_patch = "retry"

            def perform_update(self, serializer: Any) -> None:
                attempts.append(serializer.instance.version)
                Book.objects.filter(pk=book.pk).update(notes=f"faster {len(attempts)}")
                serializer.save()

        request = APIRequestFactory().patch("/", {"stock": 7}, format="json")
        answer = Hopeless.as_view({"patch": "partial_update"})(request, pk=book.pk)

        assert answer.status_code == 409
        assert len(attempts) == 5
        assert Book.objects.values_list("version", "notes").get() == (1, "")

    def test_a_named_version_is_never_retried(self, book: Book) -> None:
        attempts: list[int] = []

        class Hopeless(BookViewSet):
            occ_patch = "retry"

            def perform_update(self, serializer: Any) -> None:
                attempts.append(serializer.instance.version)
                Book.objects.filter(pk=book.pk).update(notes="faster")
                serializer.save()

        request = APIRequestFactory().patch("/", {"stock": 7, "version": 1}, format="json")
        answer = Hopeless.as_view({"patch": "partial_update"})(request, pk=book.pk)

        assert (answer.status_code, attempts) == (409, [1])

    def test_refusals_pass_through_another_exception_handler(self, book: Book, settings: Any) -> None:
        seen: list[Any] = []

        def handler(exc: Exception, context: Any) -> Response:
            assert isinstance(exc, APIException)
            seen.append((exc.detail, exc.get_codes()))
            return Response({"errors": [exc.detail]}, status=exc.status_code)

        class Formatted(BookViewSet):
            def get_exception_handler(self) -> Any:
                return handler

        request = APIRequestFactory().delete("/", headers={"If-Match": '"9"'})
        answer = Formatted.as_view({"delete": "destroy"})(request, pk=book.pk)

        assert answer.status_code == 409
        assert answer.data == {"errors": [seen[0][0]]}
        assert seen[0][1] == "stale_version"


class TestActions:
    def test_a_guarded_action_demands_the_version(self, book: Book) -> None:
        path = f"/books/{book.pk}/sell/"

        without = in_process("POST", path)
        stale = in_process("POST", path, headers={"If-Match": '"9"'})
        sold = in_process("POST", path, headers={"If-Match": '"1"'})
        by_body = in_process("POST", path, body={"version": 2})

        assert [answer.status for answer in (without, stale, sold, by_body)] == [428, 409, 200, 200]
        assert by_body.tag.startswith('"3-')
        assert Book.objects.values_list("version", "stock").get() == (3, -1)

    def test_the_object_of_a_guarded_action_is_read_once(self, book: Book) -> None:
        with CaptureQueriesContext(
            connection,
        ) as statements:
            in_process("POST", f"/books/{book.pk}/sell/", headers={"If-Match": '"1"'})

        assert len(statements) == 2

    def test_another_action_honours_a_tag_that_is_sent(self, book: Book) -> None:
        path = f"/books/{book.pk}/praise/"

        stale = in_process("POST", path, headers={"If-Match": '"9"'})
        without = in_process("POST", path, body={"version": "of the praise"})
        current = in_process("POST", path, headers={"If-Match": '"2"'})

        assert [answer.status for answer in (stale, without, current)] == [409, 200, 200]
        assert "ETag" not in without.headers

    def test_a_reading_action_has_no_tag_of_the_row(self, book: Book) -> None:
        answer = in_process("GET", f"/books/{book.pk}/history/", headers={"If-None-Match": "*", "If-Match": '"9"'})

        assert (answer.status, answer.json) == (200, [1])
        assert "ETag" not in answer.headers

    def test_the_decorator_needs_the_mixin(self) -> None:
        class Unguarded(Open, viewsets.GenericViewSet[Book]):
            @require_if_match
            def sell(self, request: Request) -> Response:
                raise AssertionError

        with pytest.raises(ImproperlyConfigured, match="Add the mixin"):
            Unguarded.as_view({"post": "sell"})(APIRequestFactory().post("/"))


class TestSerializers:
    def test_a_many_to_many_change_alone_moves_the_version(self, book: Book) -> None:
        tags = [Tag.objects.create(name=name) for name in ("a", "b")]
        path = f"/tagged/{book.pk}/"
        first = in_process("GET", path)

        changed = in_process("PATCH", path, body={"tags": [tags[0].pk]}, headers={"If-Match": first.tag})
        same = in_process("PATCH", path, body={"tags": [tags[0].pk]}, headers={"If-Match": changed.tag})
        stale = in_process("PATCH", path, body={"tags": [tags[1].pk]}, headers={"If-Match": first.tag})

        assert (changed.status, changed.json["version"], changed.json["tags"]) == (200, 2, [tags[0].pk])
        assert (same.status, same.json["version"], same.tag) == (200, 2, changed.tag)
        assert stale.status == 409

    def test_a_saved_serializer_with_more_than_the_payload_is_written(self, book: Book) -> None:
        class Stamping(BookViewSet):
            def perform_update(self, serializer: Any) -> None:
                serializer.save(notes="by the server")

        request = APIRequestFactory().patch("/", {}, format="json", headers={"If-Match": '"1"'})
        answer = Stamping.as_view({"patch": "partial_update"})(request, pk=book.pk)

        assert (answer.status_code, answer.data["version"], answer.data["notes"]) == (200, 2, "by the server")

    def test_the_object_saves_as_ever_after_the_request(self, book: Book) -> None:
        kept: list[Book] = []

        class Keeping(BookViewSet):
            def perform_update(self, serializer: Any) -> None:
                kept.append(serializer.save())

        request = APIRequestFactory().patch("/", {}, format="json", headers={"If-Match": '"1"'})
        Keeping.as_view({"patch": "partial_update"})(request, pk=book.pk)
        kept[0].save()

        assert Book.objects.get().version == 2

    def test_a_copy_made_while_writing_is_a_new_row(self, book: Book) -> None:
        class Archiving(BookViewSet):
            def perform_update(self, serializer: Any) -> None:
                archived = self.get_object()
                archived.pk = None
                archived._state.adding = True
                archived.save()
                serializer.save()

        request = APIRequestFactory().put("/", BODY, format="json", headers={"If-Match": '"1"'})
        answer = Archiving.as_view({"put": "update"})(request, pk=book.pk)

        assert answer.status_code == 200
        assert sorted(Book.objects.values_list("version", "stock")) == [(1, 1), (2, 7)]


class TestCosts:
    def test_a_put_takes_the_statements_of_a_plain_one(self, book: Book) -> None:
        plain = PlainBook.objects.create(title="Emma")
        with CaptureQueriesContext(connection) as plainly:
            in_process("PUT", f"/plain/{plain.pk}/", body=BODY)
        with CaptureQueriesContext(connection) as guarded:
            put(book, If_Match='"1"')

        assert [q["sql"][:6] for q in guarded] == [q["sql"][:6] for q in plainly] == ["SELECT", "UPDATE"]

    @pytest.mark.django_db(transaction=True)  # whole requests close connections
    @pytest.mark.urls("benchmarks.http_api")
    def test_a_put_calls_a_twentieth_more_than_a_plain_one_and_a_304_three_quarters_of_a_full_answer(self) -> None:
        requests = {
            "plain PUT": http.writer("plain"),
            "PUT": http.writer("guarded"),
            "full": http.reader("guarded"),
            "304": http.reader("guarded", known=True),
        }

        for request in requests.values():
            request()  # fills caches
        calls = {name: calls_of(request) for name, request in requests.items()}

        assert calls["PUT"] <= 1.05 * calls["plain PUT"]
        assert calls["304"] <= 0.75 * calls["full"]

    @pytest.mark.parametrize(("tag", "count"), [('"1"', 1), ('"9"', 1), ("", 1), ("garbage", 1)])
    def test_a_refusal_or_a_change_of_nothing_takes_one_read(
        self, book: Book, tag: str, count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(conflict_detected, "receivers", [])  # occ.contention looks into some conflicts by a read
        with CaptureQueriesContext(connection) as statements:
            put(book, body={"title": "Emma", "stock": 1}, If_Match=tag)

        assert len(statements) == count

    def test_a_304_is_not_serialized(self, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
        tag = tag_of(book)
        monkeypatch.setattr(BookSerializer, "data", property(lambda self: pytest.fail("serialized")))

        answer = in_process("GET", f"/books/{book.pk}/", headers={"If-None-Match": tag})

        assert answer.status == 304


class TestMisuse:
    def test_the_mixin_must_come_first(self) -> None:
        with pytest.raises(TypeError, match="must come before the view"):

            class WrongOrder(viewsets.ModelViewSet[Book], OptimisticLockMixin):
                pass

    def test_a_model_without_a_version_is_named(self) -> None:
        plain = PlainBook.objects.create(title="Emma")

        class Unversioned(Open, OptimisticLockMixin, generics.RetrieveUpdateAPIView[PlainBook]):
            queryset = PlainBook.objects.all()
            serializer_class = PlainBookSerializer

        with pytest.raises(ImproperlyConfigured, match="library.PlainBook has no VersionField"):
            Unversioned.as_view()(APIRequestFactory().get("/"), pk=plain.pk)

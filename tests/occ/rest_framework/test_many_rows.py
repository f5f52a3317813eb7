"""Requests about more than one row: bulk endpoints, nested writes, children and parents; and PUT that creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.urls import include, path
from rest_framework import permissions, routers, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from occ.rest_framework import OptimisticLockMixin, check_versions
from tests.library.models import Book, Chapter, PlainBook, Shelf

from .api import BookSerializer, ChapterSerializer, Open, ShelfSerializer
from .conftest import Answer, in_process

pytestmark = [pytest.mark.urls("tests.occ.rest_framework.test_many_rows"), pytest.mark.django_db]


class NestedChapterSerializer(serializers.ModelSerializer[Chapter]):
    id = serializers.IntegerField(required=False)

    class Meta:
        model = Chapter
        fields = ("id", "version", "title", "pages")


class BookWithChaptersSerializer(serializers.ModelSerializer[Book]):
    chapters = NestedChapterSerializer(many=True, required=False)

    class Meta:
        model = Book
        fields = ("id", "version", "title", "stock", "chapters")

    def update(self, instance: Book, validated_data: dict[str, Any]) -> Book:
        for values in validated_data.pop("chapters", []):
            chapter = instance.chapters.get(pk=values["id"])
            for name, value in values.items():
                setattr(chapter, name, value)
            chapter.save()
        return super().update(instance, validated_data)


class BookWithChaptersViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Book]):
    queryset = Book.objects.prefetch_related("chapters").order_by("pk")
    serializer_class = BookWithChaptersSerializer


class TouchedBookViewSet(BookWithChaptersViewSet):
    occ_touch_parent = True


class ChapterViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Chapter]):
    queryset = Chapter.objects.order_by("pk")
    serializer_class = ChapterSerializer
    occ_touch_parent = "book"


class BulkViewSet(Open, OptimisticLockMixin, viewsets.GenericViewSet[Book]):
    queryset = Book.objects.order_by("pk")
    serializer_class = BookSerializer

    @action(detail=False, methods=["patch"])
    def restock(self, request: Request) -> Response:
        with transaction.atomic():
            books = check_versions(self.get_queryset(), request.data, key="id")
            for book, item in zip(books, request.data, strict=True):
                book.stock = item["stock"]
            if "X-Overtake" in request.headers:
                Book.objects.filter(pk=books[0].pk).update(notes="faster")
            Book.objects.bulk_update(books, ["stock"])
        return Response(self.get_serializer(books, many=True).data)


class NoAdding(permissions.BasePermission):
    def has_permission(self, request: Request, view: Any) -> bool:
        return not (request.method == "POST" and "X-No-Adding" in request.headers)


class CreatingShelfViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Shelf]):
    queryset = Shelf.objects.order_by("pk")
    serializer_class = ShelfSerializer
    permission_classes = (NoAdding,)
    occ_put_creates = True


router = routers.DefaultRouter()
router.register("books", BookWithChaptersViewSet)
router.register("touched", TouchedBookViewSet, "touched")
router.register("chapters", ChapterViewSet)
router.register("bulk", BulkViewSet, "bulk")
router.register("shelves", CreatingShelfViewSet)

urlpatterns = [path("", include(router.urls))]


class TestBulk:
    @pytest.fixture
    def books(self) -> list[Book]:
        return [Book.objects.create(title=title) for title in ("Emma", "Persuasion", "Sanditon")]

    def restock(self, items: Any, **headers: str) -> Answer:
        return in_process("PATCH", "/bulk/restock/", body=items, headers=headers)

    def stocks(self) -> list[tuple[int, int]]:
        return list(Book.objects.order_by("pk").values_list("version", "stock"))

    def test_all_rows_are_written_if_all_versions_are_current(self, books: list[Book]) -> None:
        items = [{"id": book.pk, "version": 1, "stock": number} for number, book in enumerate(books)]

        answer = self.restock(items[::-1])

        assert answer.status == 200
        assert [item["id"] for item in answer.json] == [book.pk for book in books[::-1]]
        assert self.stocks() == [(2, 0), (2, 1), (2, 2)]

    def test_one_stale_row_refuses_all_and_each_is_named(self, books: list[Book]) -> None:
        Book.objects.filter(pk=books[1].pk).update(notes="changed")
        gone = books[2].pk
        books[2].delete()
        items = [{"id": pk, "version": 1, "stock": 9} for pk in (books[0].pk, books[1].pk, gone)]

        answer = self.restock(items)

        assert answer.status == 409
        assert answer.json == {
            "detail": "Nothing was written: 2 of the rows have changed since you read them. GET them again, make your "
            "changes to what you get, and send them with the new versions.",
            "code": "stale_version",
            "conflicts": [
                {"pk": books[1].pk, "expected_version": 1, "current_version": 2},
                {"pk": gone, "expected_version": 1, "current_version": None},
            ],
        }
        assert self.stocks() == [(1, 0), (2, 0)]

    def test_a_rival_between_check_and_write_is_409_too(self, books: list[Book]) -> None:
        items = [{"id": book.pk, "version": 1, "stock": 9} for book in books]

        answer = self.restock(items, **{"X-Overtake": "1"})

        assert answer.status == 409
        assert answer.json["conflicts"] == [{"pk": books[0].pk, "expected_version": 1, "current_version": 2}]
        assert self.stocks() == [(1, 0)] * 3

    @pytest.mark.parametrize(
        ("change", "status", "code"),
        [
            (lambda items: items[1].pop("version"), 428, "precondition_required"),
            (lambda items: items[1].update(version="new"), 400, "invalid_precondition"),
            (lambda items: items[1].update(version=None), 400, "invalid_precondition"),
            (lambda items: items[1].pop("id"), 400, "invalid_precondition"),
            (lambda items: items[1].update(id="x"), 400, "invalid_precondition"),
            (lambda items: items[1].update(id=[1]), 400, "invalid_precondition"),
            (lambda items: items[1].update(id=10**30), 400, "invalid_precondition"),
            (lambda items: items.append(items[0]), 400, "invalid_precondition"),
            (lambda items: items.append("text"), 400, "invalid_precondition"),
        ],
    )
    def test_an_item_that_says_no_version_refuses_all(
        self, books: list[Book], change: Callable[[list[Any]], None], status: int, code: str
    ) -> None:
        items: list[Any] = [{"id": book.pk, "version": 1, "stock": 9} for book in books]
        change(items)

        answer = self.restock(items)

        assert (answer.status, answer.json["code"]) == (status, code)
        assert self.stocks() == [(1, 0)] * 3

    @pytest.mark.parametrize("body", ["null", "7", "true", '"x"', "{}", '{"id": 1, "version": 1}'])
    def test_what_is_no_list_of_items_is_refused(self, books: list[Book], body: str) -> None:
        answer = self.restock(body)

        assert (answer.status, answer.json["code"]) == (400, "invalid_precondition")

    def test_a_model_without_versions_is_named(self) -> None:
        with pytest.raises(ImproperlyConfigured, match="library.PlainBook has no VersionField"):
            check_versions(PlainBook.objects.all(), [])


class TestChildren:
    @pytest.fixture
    def book(self) -> Book:
        book = Book.objects.create(title="Emma", stock=1)
        Chapter.objects.create(book=book, title="one")
        Chapter.objects.create(book=book, title="two")
        return book

    def patch(self, book: Book, chapters: list[Any], path: str = "books", **values: Any) -> Answer:
        tag = in_process("GET", f"/{path}/{book.pk}/").tag
        body = {"chapters": chapters, **values}
        return in_process("PATCH", f"/{path}/{book.pk}/", body=body, headers={"If-Match": tag})

    def chapters(self) -> list[tuple[int, int]]:
        return list(Chapter.objects.order_by("pk").values_list("version", "pages"))

    def test_the_version_of_a_child_is_checked_when_sent(self, book: Book) -> None:
        one, two = book.chapters.order_by("pk")
        items = [{"id": one.pk, "title": "one", "pages": 5}, {"id": two.pk, "title": "two", "pages": 6, "version": 2}]

        refused = self.patch(book, items, stock=9)
        accepted = self.patch(book, [items[0], {**items[1], "version": 1}], stock=9)

        assert (refused.status, refused.json["conflicts"]) == (
            409,
            [{"pk": two.pk, "expected_version": 2, "current_version": 1}],
        )
        assert (accepted.status, accepted.json["version"]) == (200, 2)
        assert self.chapters() == [(2, 5), (2, 6)]

    @pytest.mark.parametrize("versions", [(9, 1), (1, 9)])
    def test_each_version_sent_for_a_child_is_checked(self, book: Book, versions: tuple[int, int]) -> None:
        one = book.chapters.order_by("pk")[0]

        refused = self.patch(book, [{"id": one.pk, "title": "one", "version": version} for version in versions])

        assert (refused.status, refused.json["conflicts"]) == (
            409,
            [{"pk": one.pk, "expected_version": 9, "current_version": 1}],
        )

    @pytest.mark.parametrize("key", [[1], {}, 1.5, True])
    def test_what_is_no_key_of_a_child_is_left_to_the_serializer(self, book: Book, key: Any) -> None:
        refused = self.patch(book, [{"id": key, "title": "one", "version": 1}])

        assert (refused.status, list(refused.json)) == (400, ["chapters"])

    def test_a_malformed_version_of_a_child_is_no_absent_one(self, book: Book) -> None:
        one = book.chapters.order_by("pk")[0]

        refused = self.patch(book, [{"id": one.pk, "title": "one", "version": "new"}])

        assert (refused.status, refused.json["code"]) == (400, "invalid_precondition")

    def test_the_version_of_anothers_child_is_not_told(self, book: Book) -> None:
        other = Chapter.objects.create(book=Book.objects.create(title="Sanditon"), title="one")

        with pytest.raises(Chapter.DoesNotExist):  # what this serializer makes of it, and no 409
            self.patch(book, [{"id": other.pk, "title": "one", "version": 99}])

    def test_a_write_of_children_alone_moves_the_version_where_asked(self, book: Book) -> None:
        one = book.chapters.order_by("pk")[0]
        chapter = {"id": one.pk, "title": "one", "pages": 5}

        plain = self.patch(book, [chapter])
        touched = self.patch(book, [{**chapter, "pages": 6}], "touched")
        same = self.patch(book, [{**chapter, "pages": 6}], "touched")
        both = self.patch(book, [{**chapter, "pages": 7}], "touched", stock=9)

        assert [answer.json["version"] for answer in (plain, touched, same, both)] == [1, 2, 3, 4]
        assert both.tag.startswith('"4-')

    def test_a_refused_write_leaves_no_child_written(self, book: Book) -> None:
        one = book.chapters.order_by("pk")[0]
        tag = in_process("GET", f"/books/{book.pk}/").tag

        class Overtaken(BookWithChaptersViewSet):
            def perform_update(self, serializer: Any) -> None:
                Book.objects.filter(pk=book.pk).update(notes="faster")
                serializer.save()

        body = {"title": "Emma", "stock": 9, "chapters": [{"id": one.pk, "title": "one", "pages": 5}]}
        request = APIRequestFactory().put("/", body, format="json", headers={"If-Match": tag})
        answer = Overtaken.as_view({"put": "update"})(request, pk=book.pk)

        assert answer.status_code == 409
        assert self.chapters() == [(1, 1), (1, 1)]

    def test_writing_a_child_moves_the_version_of_its_parent(self, book: Book) -> None:
        def version() -> int:
            return Book.objects.get(pk=book.pk).version

        versions = [version()]
        created = in_process("POST", "/chapters/", body={"book": book.pk, "title": "three"})
        versions.append(version())
        path = f"/chapters/{created.json['id']}/"
        changed = in_process("PATCH", path, body={"pages": 4}, headers={"If-Match": created.tag})
        versions.append(version())
        same = in_process("PATCH", path, body={"pages": 4}, headers={"If-Match": changed.tag})
        stale = in_process("PATCH", path, body={"pages": 5}, headers={"If-Match": created.tag})
        versions.append(version())
        deleted = in_process("DELETE", path, headers={"If-Match": changed.tag})
        versions.append(version())

        assert [each.status for each in (created, changed, same, stale, deleted)] == [201, 200, 200, 409, 204]
        assert versions == [1, 2, 3, 3, 4]

    def test_a_child_that_moves_touches_both_parents(self, book: Book) -> None:
        other = Book.objects.create(title="Sanditon")
        one = book.chapters.order_by("pk")[0]

        in_process("PATCH", f"/chapters/{one.pk}/", body={"book": other.pk}, headers={"If-Match": '"1"'})

        assert list(Book.objects.order_by("pk").values_list("version", flat=True)) == [2, 2]


class TestCreation:
    def put(self, code: str = "a1", body: Any = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return in_process("PUT", f"/shelves/{code}/", body={"label": "new"} if body is None else body, headers=given)

    @pytest.mark.parametrize("value", ["*", '"q"', None])
    def test_a_put_creates_what_is_not_there(self, value: str | None) -> None:
        answer = self.put(**({"If_None_Match": value} if value else {}))

        assert (answer.status, answer.json["code"], answer.json["label"]) == (201, "a1", "new")
        assert answer.tag == in_process("GET", "/shelves/a1/").tag

    def test_what_is_there_is_not_overwritten(self) -> None:
        self.put()

        new = self.put(If_None_Match="*")
        without = self.put()
        guarded = self.put(body={"code": "a1", "label": "changed"}, If_Match=in_process("GET", "/shelves/a1/").tag)

        assert [answer.status for answer in (new, without, guarded)] == [412, 428, 200]
        assert Shelf.objects.get().label == "changed"

    @pytest.mark.parametrize("value", ["*", '"1"', '"q"'])
    def test_what_must_be_there_is_not_created(self, value: str) -> None:
        answer = self.put(If_Match=value)

        assert (answer.status, answer.json["code"]) == (412, "precondition_failed")
        assert not Shelf.objects.exists()

    @pytest.mark.parametrize(
        ("body", "headers", "status"),
        [
            ({"number": 5}, {}, 409),
            ({"number": "x"}, {}, 400),
            ({"code": "b2"}, {}, 400),
            ({"label": "x" * 101}, {}, 400),
            ("{", {}, 400),
            ([1], {}, 400),
            ({}, {"If-Match": "7"}, 400),
            ({}, {"If-None-Match": "7"}, 400),
            ({}, {"X-No-Adding": "1"}, 401),
            ({"number": 5}, {"X-No-Adding": "1", "If-Match": "*"}, 401),
        ],
    )
    def test_a_put_that_asks_for_something_else_creates_nothing(
        self, body: Any, headers: dict[str, str], status: int
    ) -> None:
        answer = in_process("PUT", "/shelves/a1/", body=body, headers=headers)

        assert answer.status in (status, 403)
        assert not Shelf.objects.exists()

    @pytest.mark.parametrize("method", ["PATCH", "DELETE", "GET"])
    def test_other_methods_create_nothing(self, method: str) -> None:
        answer = in_process(method, "/shelves/a1/", body={"label": "new"})

        assert answer.status == 404

    @pytest.mark.parametrize(("headers", "status"), [({"If-None-Match": "*"}, 412), ({}, 409)])
    @pytest.mark.parametrize("step", ["get_serializer", "perform_create"])
    def test_of_two_creations_the_later_is_refused(self, headers: dict[str, str], status: int, step: str) -> None:
        class Overtaken(CreatingShelfViewSet):
            def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
                serializer = super().get_serializer(*args, **kwargs)
                if step == "perform_create":  # past the validators, and before the savepoint
                    serializer.is_valid()
                Shelf.objects.create(code="a1", label="faster")
                return serializer

        request = APIRequestFactory().put("/", {"label": "slower"}, format="json", headers=headers)
        answer = Overtaken.as_view({"put": "update"})(request, pk="a1")

        assert answer.status_code == status
        assert Shelf.objects.get().label == "faster"

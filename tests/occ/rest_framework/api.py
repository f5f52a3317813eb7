"""The API that these tests call: guarded views over the library's models. Also its URLconf."""

from __future__ import annotations

from typing import Any

from django.urls import include, path
from rest_framework import generics, permissions, routers, serializers, throttling, viewsets
from rest_framework.authentication import BasicAuthentication
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from occ.rest_framework import ApplyPatchMixin, OptimisticLockMixin, require_if_match
from tests.library.models import Author, Book, Chapter, Gate, PlainBook, Shelf


class BookSerializer(serializers.ModelSerializer[Book]):
    """Shows the row's own columns and nothing else."""

    class Meta:
        model = Book
        fields = ("id", "version", "title", "stock", "price", "notes", "details", "author")


class AuthorSerializer(serializers.ModelSerializer[Author]):
    class Meta:
        model = Author
        fields = ("id", "version", "name")


class NestedBookSerializer(serializers.ModelSerializer[Book]):
    """Shows another row too."""

    author = AuthorSerializer(read_only=True)

    class Meta:
        model = Book
        fields = ("id", "version", "title", "author")


class TaggedBookSerializer(serializers.ModelSerializer[Book]):
    class Meta:
        model = Book
        fields = ("id", "version", "title", "tags")


class ShelfSerializer(serializers.ModelSerializer[Shelf]):
    number = serializers.IntegerField(source="revision")  # a careless author: writable, required, renamed

    class Meta:
        model = Shelf
        fields = ("code", "number", "label")


class PlainBookSerializer(serializers.ModelSerializer[PlainBook]):
    class Meta:
        model = PlainBook
        fields = "__all__"


class GateSerializer(serializers.ModelSerializer[Gate]):
    load = serializers.IntegerField(source="size", required=False)

    class Meta:
        model = Gate
        fields = ("id", "version", "name", "replicas", "price", "spec", "author", "load", "tags")


class Open:
    permission_classes = (permissions.AllowAny,)
    authentication_classes = ()


class BookViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("pk")
    serializer_class = BookSerializer

    @action(detail=True, methods=["post"])
    @require_if_match
    def sell(self, request: Request, pk: str) -> Response:
        book = self.get_object()
        book.stock -= 1
        book.save()
        return Response(self.get_serializer(book).data)

    @action(detail=True, methods=["post"])
    def praise(self, request: Request, pk: str) -> Response:
        book = self.get_object()
        book.notes = "praised"
        book.save()
        return Response({"praised": True})

    @action(detail=True)
    def history(self, request: Request, pk: str) -> Response:
        return Response([self.get_object().version])


class NestedBookViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("pk").select_related("author")
    serializer_class = NestedBookSerializer


class TaggedBookViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("pk")
    serializer_class = TaggedBookSerializer


class RetryingBookViewSet(BookViewSet):
    occ_patch = "retry"


class LenientBookViewSet(BookViewSet):
    occ_require_if_match = False


class ShelfViewSet(Open, OptimisticLockMixin, viewsets.ModelViewSet[Shelf]):
    queryset = Shelf.objects.order_by("pk")
    serializer_class = ShelfSerializer


class ChapterSerializer(serializers.ModelSerializer[Chapter]):
    class Meta:
        model = Chapter
        fields = "__all__"


class ChapterView(Open, OptimisticLockMixin, generics.RetrieveUpdateDestroyAPIView[Chapter]):
    """A generic view, with a get_object of its own that knows nothing of preconditions."""

    serializer_class = ChapterSerializer

    def get_object(self) -> Chapter:
        return generics.get_object_or_404(Chapter, title=self.kwargs["title"])


class ReadOnlyBookViewSet(Open, OptimisticLockMixin, viewsets.ReadOnlyModelViewSet[Book]):
    queryset = Book.objects.order_by("pk")
    serializer_class = BookSerializer


class IsOwner(permissions.BasePermission):
    def has_object_permission(self, request: Request, view: Any, obj: Book) -> bool:
        return request.user.get_username() == obj.notes


class Never(throttling.BaseThrottle):
    def allow_request(self, request: Request, view: Any) -> bool:
        return request.headers.get("X-Throttle") is None


class OwnedBookViewSet(OptimisticLockMixin, viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("pk")
    serializer_class = BookSerializer
    authentication_classes = (BasicAuthentication,)
    permission_classes = (permissions.IsAuthenticated, IsOwner)
    throttle_classes = (Never,)


class PlainBookViewSet(Open, viewsets.ModelViewSet[PlainBook]):
    """What a view is without the mixin."""

    queryset = PlainBook.objects.order_by("pk")
    serializer_class = PlainBookSerializer


class GateViewSet(Open, ApplyPatchMixin, OptimisticLockMixin, viewsets.ModelViewSet[Gate]):
    queryset = Gate.objects.order_by("pk")
    serializer_class = GateSerializer


class ReversedGateViewSet(Open, OptimisticLockMixin, ApplyPatchMixin, viewsets.ModelViewSet[Gate]):
    queryset = Gate.objects.order_by("pk")
    serializer_class = GateSerializer


class BareGateViewSet(Open, ApplyPatchMixin, viewsets.ModelViewSet[Gate]):
    queryset = Gate.objects.order_by("pk")
    serializer_class = GateSerializer


router = routers.DefaultRouter()
router.register("books", BookViewSet)
router.register("nested", NestedBookViewSet, "nested")
router.register("tagged", TaggedBookViewSet, "tagged")
router.register("retrying", RetryingBookViewSet, "retrying")
router.register("lenient", LenientBookViewSet, "lenient")
router.register("shelves", ShelfViewSet)
router.register("readonly", ReadOnlyBookViewSet, "readonly")
router.register("owned", OwnedBookViewSet, "owned")
router.register("plain", PlainBookViewSet)
router.register("gates", GateViewSet)
router.register("reversed-gates", ReversedGateViewSet, "reversed-gates")
router.register("bare-gates", BareGateViewSet, "bare-gates")

urlpatterns = [
    path("", include(router.urls)),
    path("chapters/<title>/", ChapterView.as_view()),
]

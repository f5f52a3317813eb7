"""OptimisticLockMixin: what makes a DRF view carry ETags out and preconditions in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rest_framework.exceptions import APIException
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, ListSerializer
from rest_framework.views import APIView

from occ.rest_framework.bodies import nested_too_deeply
from occ.rest_framework.conflicts import as_refusal
from occ.rest_framework.exceptions import Refusal
from occ.rest_framework.exchange import Exchange
from occ.rest_framework.inspection import serializer_facts
from occ.rest_framework.reads import NotModified, Read
from occ.rest_framework.relations import write_with_relations
from occ.rest_framework.renderers import with_preconditions
from occ.rest_framework.writes import Write

if TYPE_CHECKING:
    from rest_framework.generics import GenericAPIView
    from rest_framework.request import Request

    _View = GenericAPIView[Any]
else:
    _View = object

_SAFE = ("GET", "HEAD")
_UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


class OptimisticLockMixin(_View):
    """Guard a generic view or viewset: reads carry an ETag, writes must say which version they change.

    Comes first among the bases: ``class DeploymentViewSet(OptimisticLockMixin, viewsets.ModelViewSet)``. It needs no
    settings, no exception handler and no serializer of its own. PUT, PATCH and DELETE are answered

    - 428 without If-Match and without the version in the body;
    - 400 when either cannot be understood;
    - 409 when either is stale, or another writer was faster (``OCC["STALE_STATUS"] = 412`` for a stale If-Match);
    - 412 when If-None-Match names the row.

    GET answers 304 to an If-None-Match that names the representation. ``@action`` methods honour an If-Match that is
    sent, and demand one under ``@require_if_match``. A write that changes nothing writes nothing.

    Not promised: that a view method which writes by ``QuerySet.update()`` is guarded, nor one that neither calls
    ``get_object()`` nor saves the object that it was given.
    """

    #: None: as ``OCC["REQUIRE_IF_MATCH"]`` says. False lets writes without a version through, the last of them wins.
    occ_require_if_match: ClassVar[bool | None] = None

    #: ``"retry"``: a PATCH without a version is repeated on a fresh read when another writer was faster, at most 5
    #: times.
    occ_patch: ClassVar[Literal["require", "retry"]] = "require"

    #: True: a PUT to an address where no row is creates it there.
    occ_put_creates: ClassVar[bool] = False

    #: The name of the foreign key to the parent: writing this row moves its parent's version. True, where this row is
    #: the parent and its serializer writes the children: a write of children alone moves the row's version.
    occ_touch_parent: ClassVar[str | bool] = False

    _occ_exchange: Exchange | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        bases = cls.__mro__
        if APIView in bases and bases.index(OptimisticLockMixin) > bases.index(APIView):
            raise TypeError(
                f"{cls.__name__}: OptimisticLockMixin must come before the view among the bases, or the view's own "
                f"methods win: class {cls.__name__}(OptimisticLockMixin, ...)."
            )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # The method of the request itself: OPTIONS and the browsable API look at clones of it with other methods.
        method = request.method
        if method in _SAFE:
            self._occ_exchange = Read(self, request)
        elif method in _UNSAFE:
            self._occ_exchange = Write(self, request, method)

    def get_renderers(self) -> list[BaseRenderer]:
        return [with_preconditions(renderer) for renderer in super().get_renderers()]

    def get_serializer(self, *args: Any, **kwargs: Any) -> BaseSerializer[Any]:
        """Return DRF's serializer, with the version shown but never stored, whatever the serializer says."""
        serializer = super().get_serializer(*args, **kwargs)
        single: Any = serializer.child if isinstance(serializer, ListSerializer) else serializer
        facts = serializer_facts(type(single))
        for name in facts.version_names:
            field = single.fields.get(name)
            if field is not None and not field.read_only:
                field.read_only, field.required = True, False
        updates = single is serializer and single.instance is not None and hasattr(single, "initial_data")
        if updates and facts.writes_beside_row and isinstance(self._occ_exchange, Write):
            write_with_relations(single)
        return serializer

    def handle_exception(self, exc: Exception) -> Response:
        """Answer as DRF does, and give conflicts and unmet preconditions their status."""
        if isinstance(exc, NotModified):
            return exc.response()
        exchange = self._occ_exchange
        using = exchange.using if isinstance(exchange, Write) else None
        refusal: APIException | None = as_refusal(exc, using) or nested_too_deeply(exc)
        if refusal is not None:
            refusal.__cause__ = exc
            exc = refusal
        response = super().handle_exception(exc)
        if isinstance(exc, Refusal):
            exc.complete(response)
        return response

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        answer = super().finalize_response(request, response, *args, **kwargs)
        if self._occ_exchange is not None:
            self._occ_exchange.finish(answer)
        return answer

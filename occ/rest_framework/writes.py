"""Writes: what the client must say, what is checked before its body is looked at, and when the server may repeat.

The check only chooses the answer. What refuses a write that lost a race is the guarded UPDATE or DELETE below.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, models, router, transaction
from django.http import Http404
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.generics import GenericAPIView

from occ.attribution import current_field_manager, field_manager
from occ.backoff import Backoff
from occ.conf import occ_settings
from occ.logs import one_line
from occ.preconditions import MalformedPrecondition, Precondition, Verdict, from_body
from occ.rest_framework.bodies import read_body
from occ.rest_framework.conflicts import as_refusal, refuse_stale
from occ.rest_framework.creation import Absent, create_at_address
from occ.rest_framework.exceptions import InvalidPrecondition, PreconditionFailed, PreconditionRequired, row_name
from occ.rest_framework.exchange import Exchange
from occ.rest_framework.inspection import SerializerFacts, serializer_facts
from occ.rest_framework.nested import check_children
from occ.rest_framework.parents import ParentTouch
from occ.rest_framework.rows import database_of, row_version, stored_version
from occ.rest_framework.signals import unconditional_write
from occ.retry import retry_on_conflict
from occ.snapshots import end_skipping, skip_unchanged

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from occ.rest_framework.mixins import OptimisticLockMixin

logger = logging.getLogger("occ")

# As often as Kubernetes' own clients try (client-go, util/retry.DefaultRetry), from a fresh read each time.
REPEATS = Backoff(base=0.005, attempts=5)

NONE = Precondition()

_REPLACING = ("PUT", "PATCH", "DELETE")


class Write(Exchange):
    """A POST, PUT, PATCH or DELETE.

    Attributes:
        required: whether the client must say which version it expects.
        precondition: what it said, once the object has been read.
    """

    def __init__(self, view: OptimisticLockMixin, request: Request, method: str) -> None:
        super().__init__(view, request)
        self.method = method
        self.replaces = self.method in _REPLACING and not self.is_extra_action
        self.required = self.replaces and self._policy_requires()
        self.precondition = NONE
        self.using: str | None = None
        self._read_ahead: models.Model | None = None
        self._watched: list[models.Model] = []
        self._parents = ParentTouch(self) if view.occ_touch_parent and not self.is_extra_action else None
        name = method.lower()
        handler = getattr(view, name, None)
        if handler is not None:
            setattr(view, name, functools.partial(self.run, handler))

    def run(self, handler: Callable[..., Response], request: Request, *args: Any, **kwargs: Any) -> Response:
        """Run the view's method: once, or again on a fresh read as long as the client left that to the server."""
        attempt = functools.partial(self._attempt, handler, request, *args, **kwargs)
        with self._attributed():
            if self.replaces and self._may_repeat():
                self.using = self.database()
                return retry_on_conflict(backoff=REPEATS, using=self.using)(attempt)()
            if self._needs_transaction():
                self.using = self.database()
                with transaction.atomic(using=self.using):
                    return attempt()
            return attempt()

    def require(self) -> None:
        """Demand a precondition of this ``@action``, and check it before the action runs."""
        self.required = True
        self._read_ahead = self.get_object()

    def get_object(self) -> Any:
        ahead, self._read_ahead = self._read_ahead, None
        if ahead is not None:
            return ahead
        try:
            return super().get_object()
        except Http404:
            if self.method == "PUT" and self.replaces and self.view.occ_put_creates:
                raise Absent from None
            raise

    def check(self, instance: models.Model) -> None:
        if not self.required and not self.replaces and stored_version(instance) is None:
            return
        row = row_version(instance)
        version, body_error = self.version_in_body()
        if_match, if_none_match = self.if_match(), self.if_none_match()
        self.using = database_of(instance)
        self.precondition = Precondition(if_match=if_match, if_none_match=if_none_match, version=version)
        verdict = self.precondition.judge_write(
            row, required=self.required and body_error is None, weak=occ_settings.WEAK_IF_MATCH == "accept"
        )
        if verdict is not Verdict.HOLDS:
            raise self._refusal(verdict, instance)
        if body_error is not None:
            raise body_error
        if self.replaces:
            self._prepare(instance, self.using)

    def _prepare(self, instance: models.Model, using: str) -> None:
        """Get ready for what the view will do with the object that it is given."""
        if not self.precondition.if_match and self.precondition.version is None:
            self._count_unconditional(instance)
        if self._parents is not None:
            self._parents.remember(instance)
        if self.method == "DELETE":
            return
        if self._facts is not None and self._facts.nested_fields:
            check_children(instance, self.request.data, self._facts.nested_fields, using)
        # The serializer's and the model's save methods run as ever; their last one finds nothing to write.
        skip_unchanged(instance, using)
        self._watched.append(instance)

    def _attempt(self, handler: Callable[..., Response], request: Request, *args: Any, **kwargs: Any) -> Response:
        self.instance = None
        self.precondition = NONE
        try:
            response = handler(request, *args, **kwargs)
            if self._parents is not None:
                self._parents.touch(self._written(response), response)
            return response
        except Absent:
            return create_at_address(self)
        except DatabaseError as error:
            # Only what the client left open may be repeated: it decided on the version that it named.
            refusal = as_refusal(error, self.using) if self.precondition.pins_version else None
            if refusal is None:
                raise
            raise refusal from error
        finally:
            while self._watched:
                end_skipping(self._watched.pop())

    def _refusal(self, verdict: Verdict, instance: models.Model) -> APIException:
        if verdict is Verdict.MISSING:
            return PreconditionRequired.of_row(row_name(instance, instance.pk), self.version_names())
        if verdict is Verdict.NAMED:
            refuse = PreconditionFailed.of_named_version
            if self.precondition.if_none_match.any:
                refuse = PreconditionFailed.of_present_row
            return refuse(row_name(instance, instance.pk), row_version(instance).version)
        code = occ_settings.STALE_STATUS if verdict is Verdict.STALE_TAG else status.HTTP_409_CONFLICT
        return refuse_stale(instance, self.precondition, self.method, status_code=code)

    def _count_unconditional(self, instance: models.Model) -> None:
        logger.info(
            "%s of %s %s without a version, by %s",
            self.method,
            instance._meta.label,
            one_line(instance.pk),
            current_field_manager(),
        )
        unconditional_write.send(sender=type(instance), instance=instance, request=self.request)

    def _policy_requires(self) -> bool:
        if self.method == "PATCH" and self.view.occ_patch == "retry":
            return False
        own = self.view.occ_require_if_match
        return occ_settings.REQUIRE_IF_MATCH if own is None else own

    def _may_repeat(self) -> bool:
        """Tell whether the headers leave it open which version is written; a version in the body may still name it."""
        header = self.headers.get("HTTP_IF_MATCH", "").strip(" \t,")
        return header == "*" or (not header and not self.required)

    def _needs_transaction(self) -> bool:
        """Tell whether more than one row may be written, which must be all or nothing."""
        if self._parents is not None:
            return True
        updates = self.replaces and self.method != "DELETE"
        return updates and self._facts is not None and self._facts.writes_beside_row

    def _written(self, response: Response) -> models.Model | None:
        """Return the object that the handler wrote."""
        created = getattr(getattr(response.data, "serializer", None), "instance", None)
        return self.instance or (created if isinstance(created, models.Model) else None)

    def version_in_body(self) -> tuple[int | None, APIException | None]:
        """Return the version in the body, and what is wrong with the body, to be raised once the headers hold.

        Raises:
            UnsupportedMediaType: nobody can read the body. That comes before all preconditions.
        """
        names = self.version_names() if self.replaces or self.required else ()
        try:
            data = read_body(self.request, self.headers)
        except ParseError as error:
            return None, error
        if not isinstance(data, dict | Mapping):  # dict is one, and found sooner
            return None, None
        try:
            sent = {from_body(data[name]) for name in names if name in data}
        except MalformedPrecondition as error:
            return None, InvalidPrecondition(str(error))
        if len(sent) > 1:
            return None, InvalidPrecondition(f"The body names two versions, {' and '.join(map(str, sorted(sent)))}.")
        return (sent.pop() if sent else None), None

    def version_names(self) -> tuple[str, ...]:
        return self._facts.version_names if self._facts is not None else ()

    @functools.cached_property
    def _facts(self) -> SerializerFacts | None:
        view = self.view
        if view.serializer_class is None and type(view).get_serializer_class is GenericAPIView.get_serializer_class:
            return None  # a view that only deletes needs none
        return serializer_facts(view.get_serializer_class())

    def database(self) -> str:
        queryset = self.view.get_queryset()
        return getattr(queryset, "_db", None) or router.db_for_write(queryset.model)

    def _attributed(self) -> AbstractContextManager[None]:
        """Attribute the writes to the user, for field ownership and reports."""
        user = self.request.user
        return field_manager(f"user:{user.pk}") if user is not None and user.is_authenticated else nullcontext()

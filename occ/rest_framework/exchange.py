"""One request to a guarded view and its answer: what reads and writes have in common.

The mixin makes one per request, once the request has passed authentication, permissions and throttles. It takes the
place of ``view.get_object`` on that one view object, so that a view's own ``get_object`` is checked as well as DRF's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from django.db.models import Model
from rest_framework import status
from rest_framework.response import Response

from occ.etags import NOTHING, RowVersion, TagList
from occ.preconditions import MalformedPrecondition, from_header
from occ.rest_framework.exceptions import InvalidPrecondition
from occ.rest_framework.inspection import serializer_facts, view_facts
from occ.rest_framework.rows import stored_version

if TYPE_CHECKING:
    from django.db import models
    from rest_framework.request import Request

    from occ.rest_framework.mixins import OptimisticLockMixin


class Exchange:
    """What is known of a request, and the ETag of its answer.

    Attributes:
        instance: the object that ``get_object`` returned last, checked, or None.
    """

    def __init__(self, view: OptimisticLockMixin, request: Request) -> None:
        self.view = view
        self.request = request
        self.headers = request.META
        self.instance: models.Model | None = None
        # Looked at in the class: an @action is no read or write of the row as a whole.
        self._view_facts = view_facts(type(view))
        self.is_extra_action = getattr(view, "action", None) in self._view_facts.extra_actions
        self._get_object = view.get_object
        setattr(view, "get_object", self.get_object)  # noqa: B010 - on the object, not in its class

    def get_object(self) -> Any:
        """Return the view's object, once the client's preconditions have been found to hold for it."""
        instance = self._get_object()
        self.check(instance)
        self.instance = instance
        return instance

    def check(self, instance: models.Model) -> None:
        """Raise unless the preconditions hold."""
        raise NotImplementedError

    def finish(self, response: Any) -> None:
        """Give the answer its ETag, if it shows one row."""
        if not isinstance(response, Response) or response.has_header("ETag"):
            return
        shown = self._row_shown_by(response)
        row = None if shown is None else stored_version(shown)
        if row is None:
            return
        response["ETag"] = str(row.tag())
        if response.data and not self.shows_mirror(getattr(response.data, "serializer", None)):
            response.add_post_render_callback(functools.partial(self.tag_content, row))

    def tag_content(self, row: RowVersion, response: Response) -> None:
        """Extend the tag of ``response`` by the digest of its content."""
        response["ETag"] = str(row.tag(response.content))

    def shows_mirror(self, serializer: Any) -> bool:
        """Tell whether the answer is a function of the row's own columns, so that the version alone tags it."""
        view, request = self.view, self.request
        shown = view.serializer_class
        return (
            shown is not None
            and (serializer is None or type(serializer) is shown)
            and not self.is_extra_action
            and type(request.accepted_renderer) is view.renderer_classes[0]
            and request.accepted_media_type == request.accepted_renderer.media_type
            and self._view_facts.answers_as_drf_does
            and serializer_facts(shown).mirrors_row
        )

    def if_match(self) -> TagList:
        """Return the tags of If-Match; ``InvalidPrecondition`` if it is malformed."""
        return self._tags("HTTP_IF_MATCH", "If-Match")

    def if_none_match(self) -> TagList:
        """Return the tags of If-None-Match; ``InvalidPrecondition`` if it is malformed."""
        return self._tags("HTTP_IF_NONE_MATCH", "If-None-Match")

    def _tags(self, key: str, name: str) -> TagList:
        value = self.headers.get(key)
        if value is None:
            return NOTHING
        try:
            return from_header(value, name)
        except MalformedPrecondition as error:
            raise InvalidPrecondition(str(error)) from error

    def _row_shown_by(self, response: Response) -> models.Model | None:
        """Return the object whose representation ``response`` is: the one that was serialized, never one read anew."""
        code = response.status_code
        if code == status.HTTP_200_OK or code == status.HTTP_201_CREATED:
            serializer = getattr(response.data, "serializer", None)
            if serializer is not None:
                shown = getattr(serializer, "instance", None)
                return shown if isinstance(shown, Model) else None
        elif code != status.HTTP_204_NO_CONTENT:
            return None
        if self.is_extra_action or self.request.method == "DELETE" or isinstance(response.data, list):
            return None
        return self.instance

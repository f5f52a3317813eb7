"""Reads: 412 where If-Match does not hold, 304 where the client has the representation already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import status
from rest_framework.response import Response

from occ.conf import occ_settings
from occ.etags import NOTHING, EntityTag, RowVersion, TagList
from occ.preconditions import Precondition, Verdict
from occ.rest_framework.conflicts import stale_conflict
from occ.rest_framework.exceptions import InvalidPrecondition, StaleVersion
from occ.rest_framework.exchange import Exchange
from occ.rest_framework.rows import row_version

if TYPE_CHECKING:
    from django.db import models


class NotModified(Exception):
    """The client has this representation already. The mixin answers 304."""

    def __init__(self, tag: EntityTag) -> None:
        self.tag = tag
        super().__init__(str(tag))

    def response(self) -> Response:
        response = Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": str(self.tag)})
        response.content = b""  # nothing to render
        del response.headers["Content-Type"]
        return response


class Read(Exchange):
    """A GET or HEAD."""

    def check(self, instance: models.Model) -> None:
        if self.is_extra_action:
            return  # it answers with something else than the row
        row = row_version(instance)
        if "HTTP_IF_MATCH" not in self.headers and "HTTP_IF_NONE_MATCH" not in self.headers:
            return
        precondition = Precondition(if_match=self.if_match(), if_none_match=self._known())
        weak = occ_settings.WEAK_IF_MATCH == "accept"
        if precondition.judge_read(row, weak=weak) is not Verdict.HOLDS:
            conflict = stale_conflict(instance, precondition, "read")
            raise StaleVersion.of_conflict(conflict, status_code=status.HTTP_412_PRECONDITION_FAILED)
        # Before anything is serialized, where that cannot change the tag.
        if precondition.if_none_match and self.shows_mirror(None) and precondition.is_known(row.tag()):
            raise NotModified(row.tag())

    def tag_content(self, row: RowVersion, response: Response) -> None:
        super().tag_content(row, response)
        if Precondition(if_none_match=self._known()).is_known(row.tag(response.content)):
            response.status_code = status.HTTP_304_NOT_MODIFIED
            response.content = b""
            for name in ("Content-Type", "Content-Length", "Content-Language"):
                response.headers.pop(name, None)

    def _known(self) -> TagList:
        """Return the tags of If-None-Match; a malformed one costs the client the full answer, nothing else."""
        try:
            return self.if_none_match()
        except InvalidPrecondition:
            return NOTHING

"""The state of one submitted request: what went wrong in an earlier attempt, and what to tell the person in the end."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, connections
from django.http import HttpRequest, QueryDict

from occ.exceptions import Conflict
from occ.forms import Token
from occ.retry import is_retryable

_ATTRIBUTE = "_occ_submit"
ATTEMPTS = 3
CONFLICT = 409  # the status of a page that says why nothing was saved


@dataclass
class Submit:
    """One submit of a form, over all its attempts.

    Messages are held back until the transaction is committed: only then is "changed successfully" true.

    Attributes:
        attempts: how often to try, the last time without writing.
        shown: what the page that was submitted showed, where that decides.
        final: this attempt must not write, only show the page: the earlier ones met other writers.
        gone: the object that the submit is about was not found.
        deleted: what the page showed of the object that is gone.
        unchanged: there was nothing to write.
        already: the row has the values already that the person changed others to.
        note: what the log shall say of a conflict that this submit ends.
        kept: the labels of the fields in which others' values were kept without asking.
        messages: the messages to be shown if this attempt succeeds.
    """

    attempts: int = ATTEMPTS
    shown: Token | None = None
    final: bool = False
    gone: bool = False
    deleted: Token | None = None
    unchanged: bool = False
    already: bool = False
    note: str = ""
    kept: list[str] = field(default_factory=list)
    messages: list[Callable[[], None]] = field(default_factory=list)

    def run(self, request: HttpRequest, using: str, attempt: Callable[[], Any]) -> Any:
        """Run ``attempt`` in which a transaction is opened, again when another writer was in the way.

        The second attempt finds the newer row and so ends on the conflict page, or in a merge. The last one only
        shows the page.
        """
        setattr(request, _ATTRIBUTE, self)
        in_block = connections[using].in_atomic_block
        try:
            for left in reversed(range(self.attempts)):
                self.final, self.unchanged, self.note, self.messages = left == 0, False, "", []
                try:
                    response = attempt()
                    break
                except DatabaseError as error:
                    lost = in_block and not isinstance(error, Conflict)  # the surrounding transaction is gone
                    if left == 0 or lost or not is_retryable(error, using):
                        raise
                    _rewind(request)
        finally:
            delattr(request, _ATTRIBUTE)
        for show in self.messages:
            show()
        return response


def current_submit(request: HttpRequest) -> Submit | None:
    """Return the submit that ``request`` is being handled for, None when it only shows a page."""
    submit: Submit | None = getattr(request, _ATTRIBUTE, None)
    return submit


def as_get(request: HttpRequest) -> HttpRequest:
    """Return the request as one that asks for the same page anew."""
    again = copy.copy(request)
    again.method = "GET"
    again.POST = QueryDict()
    return again


def _rewind(request: HttpRequest) -> None:
    for _, files in request.FILES.lists():
        for file in files:
            file.seek(0)

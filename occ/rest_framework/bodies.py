"""What DRF lets through and nobody can use: bodies nested too deeply or lost on the way, keys that no row has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError

if TYPE_CHECKING:
    from rest_framework.request import Request


def nested_too_deeply(error: BaseException) -> ParseError | None:
    """Return the 400 for a body that Python's ``json`` gave up on while reading or writing it, else None.

    DRF lets the RecursionError through. One that arises elsewhere is a fault of the server and stays one.
    """
    trace = error.__traceback__
    if not isinstance(error, RecursionError) or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    if not trace.tb_frame.f_globals.get("__name__", "").startswith("json."):
        return None
    return ParseError(_("The body is nested too deeply."))


def read_body(request: Request, headers: Mapping[str, Any]) -> Any:
    """Return the data of ``request``, whose META is ``headers``.

    Raises:
        ParseError: the body cannot be read, is nested too deeply, or was sent and did not arrive: DRF takes one without
            Content-Length, as the chunks of a stream have none, for an empty one, and a write would be answered as if
            it had been made.
        UnsupportedMediaType: nobody can read a body of this type.
    """
    try:
        data = request.data
    except RecursionError as error:
        raise nested_too_deeply(error) or error from error
    if "HTTP_TRANSFER_ENCODING" in headers and request.stream is None:
        raise ParseError(_("The body did not arrive: it came in chunks. Send it with a Content-Length."))
    return data


def may_be_key(value: Any) -> bool:
    """Tell whether ``value`` may be the key of a row; SQLite's driver cannot even look for a number beyond 64 bits."""
    return isinstance(value, str) or (type(value) is int and -(2**63) <= value < 2**63)

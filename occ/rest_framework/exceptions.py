"""The refusals of the API: one status, one stable code and one remedy each.

They are ``APIException``s whose ``detail`` is a plain string, so that the exception handlers of other packages can
format them. Under DRF's own handler the body has ``code``, ``current_version`` and the like beside it.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.response import Response

from occ.exceptions import BulkConflict, Conflict


class Refusal(APIException):
    """A request whose precondition does not hold, or says nothing. Nothing was written.

    Attributes:
        facts: what the body of the answer says beside ``detail`` and ``code``.
    """

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.facts = facts

    def complete(self, response: Response) -> None:
        """Add the facts to the body that DRF's exception handler made; leave the bodies of other handlers alone."""
        if response.data == {"detail": self.detail}:
            response.data = {**response.data, "code": self.default_code, **self.facts}


class PreconditionRequired(Refusal):
    """A write came without a word on the version it expects (RFC 6585, 3)."""

    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_code = "precondition_required"

    @classmethod
    def of_row(cls, row: str, version_names: tuple[str, ...]) -> PreconditionRequired:
        """Say how to send the version of ``row``; ``version_names`` are the fields of the body that may carry it."""
        hint = _('Send the ETag of your last GET in an If-Match header, for example If-Match: "42-9f3c1a2b"')
        if version_names:
            hint += _(', or its "%(field)s" in the body') % {"field": version_names[0]}
        detail = _("Say which version of %(row)s you want to change, so that nobody's change is lost. %(hint)s.")
        return cls(detail % {"row": row, "hint": hint})


class InvalidPrecondition(Refusal):
    """If-Match, If-None-Match or the version in the body cannot be understood."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "invalid_precondition"


class StaleVersion(Refusal):
    """The row has moved since the client read it, or is gone."""

    status_code: int = status.HTTP_409_CONFLICT
    default_code = "stale_version"

    @classmethod
    def of_conflict(cls, conflict: Conflict, *, status_code: int = status.HTTP_409_CONFLICT) -> StaleVersion:
        """Return the refusal that tells a client of ``conflict``."""
        row = row_name(conflict.model, conflict.pk)
        if isinstance(conflict, BulkConflict):
            detail = _(
                "Nothing was written: %(count)s of the rows have changed since you read them. GET them again, make "
                "your changes to what you get, and send them with the new versions."
            ) % {"count": len(conflict.conflicts)}
        elif conflict.actual is None:
            detail = _("%(row)s has been deleted since you read it.") % {"row": row}
        else:
            detail = _(
                "%(row)s has changed since you read it: it is now at version %(version)s. GET it again, make your "
                "change to what you get, and send it with the new ETag."
            ) % {"row": row, "version": conflict.actual}
        facts: dict[str, Any] = {"current_version": conflict.actual}
        if isinstance(conflict, BulkConflict):
            del facts["current_version"]
            facts["conflicts"] = [
                {"pk": each.pk, "expected_version": each.expected, "current_version": each.actual}
                for each in conflict.conflicts
            ]
        refusal = cls(detail[:1].upper() + detail[1:], **facts)
        refusal.status_code = status_code
        return refusal

    @classmethod
    def unknown(cls) -> StaleVersion:
        """Return the refusal of a write that another one was in the way of, when the database does not say which."""
        return cls(
            _("Somebody else changed the same data at this moment. GET it again and repeat your change."),
            current_version=None,
        )


class PreconditionFailed(Refusal):
    """If-None-Match names the row that is there (RFC 9110, 13.1.2), or If-Match one that is not."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_code = "precondition_failed"

    @classmethod
    def of_present_row(cls, row: str, version: int | None) -> PreconditionFailed:
        """Refuse a write that may only create, since ``row`` is there already."""
        detail = _(
            "Nothing was written: %(row)s exists already, and If-None-Match: * asks that it does not. To change it, "
            "GET it and send its ETag in If-Match."
        )
        return cls(detail % {"row": row}, current_version=version)

    @classmethod
    def of_named_version(cls, row: str, version: int) -> PreconditionFailed:
        """Refuse a write that rules out the version that ``row`` has."""
        detail = _("Nothing was written: %(row)s is at version %(version)s, which If-None-Match rules out.")
        return cls(detail % {"row": row, "version": version}, current_version=version)

    @classmethod
    def of_absent_row(cls, row: str) -> PreconditionFailed:
        """Refuse a write that may only change, since ``row`` is not there."""
        detail = _("If-Match asks for a version of %(row)s, but there is no such row.") % {"row": row}
        return cls(detail, current_version=None)


def row_name(model: Any, pk: Any) -> str:
    """Return what people call the row: ``deployment 7``."""
    return f"{model._meta.verbose_name} {pk}"

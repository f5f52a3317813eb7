"""What a client expects of the row it wants to read or write, and whether the row is so.

Turns If-Match, If-None-Match and a version in the body into a verdict. Knows no framework: which answer follows from
a verdict is its callers' to say.
"""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple

from occ.etags import NOTHING, EntityTag, MalformedTagList, RowVersion, TagList, names_representation, parse

_NUMBER = re.compile(r"[0-9]{1,19}\Z", re.ASCII)


class Verdict(enum.Enum):
    """Whether the row is as the client expects, and if not, which expectation failed first."""

    HOLDS = "the row is as expected"
    MISSING = "the client said nothing of the version it expects"
    STALE_TAG = "If-Match names other versions"
    STALE_VERSION = "the version in the body is another"
    NAMED = "If-None-Match names the row, or any row at all"


class MalformedPrecondition(ValueError):
    """A precondition that says nothing one could check. It must not be taken for an absent one.

    Attributes:
        source: the header's name, or ``"body"``.
    """

    def __init__(self, message: str, *, source: str) -> None:
        self.source = source
        super().__init__(message)


class Precondition(NamedTuple):
    """What a request expects of the row.

    Attributes:
        if_match: the tags of If-Match; false when the header is absent or empty.
        if_none_match: likewise.
        version: the version in the body, or None.
    """

    if_match: TagList = NOTHING
    if_none_match: TagList = NOTHING
    version: int | None = None

    @property
    def pins_version(self) -> bool:
        """Whether the client says which version it has read, so that nobody may repeat its write on another."""
        return bool(self.if_match.tags) or self.version is not None

    @property
    def expected_version(self) -> int | None:
        """The one version that the client names, or None when it names none, or several."""
        if self.version is not None:
            return self.version
        numbers = {tag.opaque.partition("-")[0] for tag in self.if_match.tags}
        number = numbers.pop() if len(numbers) == 1 else ""
        return int(number) if _NUMBER.match(number) else None

    def judge_write(self, row: RowVersion, *, required: bool, weak: bool) -> Verdict:
        """Judge a write of ``row``, in the order of RFC 9110, 13.2.2.

        Args:
            required: whether the client must expect something.
            weak: whether weak tags count, see ``RowVersion.is_named_by``.
        """
        if required and not self.if_match and self.version is None and not self.if_none_match.any:
            return Verdict.MISSING
        if self.if_match.tags and not any(row.is_named_by(tag, weak=weak) for tag in self.if_match.tags):
            return Verdict.STALE_TAG
        if self.version is not None and self.version != row.version:
            return Verdict.STALE_VERSION
        if self.if_none_match and self._is_named(row):
            return Verdict.NAMED
        return Verdict.HOLDS

    def _is_named(self, row: RowVersion) -> bool:
        return self.if_none_match.any or any(row.is_named_by(tag, weak=True) for tag in self.if_none_match.tags)

    def judge_read(self, row: RowVersion, *, weak: bool) -> Verdict:
        """Judge the If-Match of a read. Its If-None-Match is about the answer, which comes later: ``is_known``."""
        return Precondition(if_match=self.if_match).judge_write(row, required=False, weak=weak)

    def is_known(self, tag: EntityTag) -> bool:
        """Tell whether the client of a read has the representation tagged ``tag`` already (304)."""
        return self.if_none_match.any or any(names_representation(known, tag) for known in self.if_none_match.tags)


def from_header(value: str | None, name: str) -> TagList:
    """Return the tags in ``value``, the header ``name`` of a request; None stands for an absent header.

    Raises:
        MalformedPrecondition: see ``etags.parse``.
    """
    if not value:
        return NOTHING
    try:
        return parse(value)
    except MalformedTagList as error:
        raise MalformedPrecondition(
            f'{name} must be * or a list of entity tags, each in double quotes, such as "42-9f3c1a2b". {error} '
            "Send the ETag of your last GET as you received it, quotes included.",
            source=name,
        ) from error


def from_body(value: Any) -> int:
    """Return the version that a body carries: a whole number, or one written out, as forms do.

    Raises:
        MalformedPrecondition: it is anything else, null and the empty text included.
    """
    if type(value) is int:
        return value
    if isinstance(value, str) and _NUMBER.match(value):
        return int(value)
    raise MalformedPrecondition(
        "The version in the body must be the whole number that your last GET returned. Send it as you received it, "
        "or leave it out and send If-Match.",
        source="body",
    )

"""Entity tags: how the version of a row travels in HTTP (RFC 9110, sections 8.8.3 and 13.1).

Reads and writes header values and compares them with rows. Knows nothing of requests, nor of what to do when a tag
does not match: that is preconditions'.

The tag of a row is ``"42-9f3c1a2b"``: its version, then a check word over model and key, so that a row deleted and
created again under the same natural key never answers to its predecessor's tag. A third part, where there is one, is
a digest of the representation that was sent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2s
from typing import Any, NamedTuple

# RFC 9110, 8.8.3: etagc is any visible character except the double quote, and obs-text. Possessive, so that a missing
# quote costs one pass over the header and not two.
_ENTITY_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*+)"')
_EMPTY_ELEMENTS = re.compile(r"[ \t,]*+")
_END_OF_ELEMENT = re.compile(r"[ \t]*+(?:,|\Z)")

# What compressing servers add inside the quotes: "-gzip" (Apache), "--gzip" (Jetty), ";gzip" (older Apache), and the
# same for their other codings.
_CODING_SUFFIX = re.compile(r"(?:--?|;)(?:gzip|br|zstd|deflate)\Z")
_DIGEST = re.compile(r"[0-9a-f]{16}\Z")


class MalformedTagList(ValueError):
    """A header that should hold ``*`` or a list of quoted entity tags holds something else."""


class EntityTag(NamedTuple):
    """One entity tag: its text between the quotes, and whether it is weak."""

    opaque: str
    weak: bool = False

    def __str__(self) -> str:
        return f'{"W/" if self.weak else ""}"{self.opaque}"'


class TagList(NamedTuple):
    """The value of an If-Match or If-None-Match header. It is false when the header names nothing at all."""

    tags: tuple[EntityTag, ...] = ()
    any: bool = False

    def __bool__(self) -> bool:
        return self.any or bool(self.tags)


NOTHING = TagList()
ANY = TagList(any=True)


def parse(header: str) -> TagList:
    """Parse the value of an If-Match or If-None-Match header, in time linear in its length.

    Empty elements are skipped, as RFC 9110, 5.6.1.2 asks of recipients.

    Raises:
        MalformedTagList: it is neither ``*`` nor a list of entity tags, not even in part.
    """
    if lone := _ENTITY_TAG.fullmatch(header):  # what nearly every client sends
        return TagList(tags=(_tag(lone),))
    if header.strip(" \t") == "*":
        return ANY
    tags = []
    position = _end_of(_EMPTY_ELEMENTS, header, 0)
    while position < len(header):
        tag = _ENTITY_TAG.match(header, position)
        end = tag and _END_OF_ELEMENT.match(header, tag.end())
        if not tag or not end:
            raise MalformedTagList(f"No entity tag at character {position + 1}.")
        tags.append(_tag(tag))
        position = _end_of(_EMPTY_ELEMENTS, header, end.end())
    return TagList(tags=tuple(tags))


class RowVersion(NamedTuple):
    """One version of one row: what a tag stands for.

    Attributes:
        version: the version.
        label: the label of the model that has the version column, ``app.model``. All models that share a row, a
            multi-table parent and its proxies for instance, share it.
        pk: the key of the row.
    """

    version: int
    label: str
    pk: Any

    @property
    def word(self) -> str:
        """Eight hexadecimal digits that stand for model and key."""
        return _word(f"{self.label}:{self.pk}")

    def tag(self, content: bytes | None = None) -> EntityTag:
        """Return the tag of this version.

        ``content`` is the rendered representation, to be given where that is not a function of the row's own columns.
        """
        opaque = f"{self.version}-{self.word}"
        if content is not None:
            opaque = f"{opaque}-{blake2s(content, digest_size=8).hexdigest()}"
        return EntityTag(opaque=opaque)

    def is_named_by(self, tag: EntityTag, *, weak: bool) -> bool:
        """Tell whether ``tag``, from If-Match, stands for this version of this row.

        The bare version, as a person types it (``"42"``), does too. The digest is not compared: which representation
        the client has seen does not matter to a write of the row. ``weak`` also takes weak tags and what compressing
        servers append, which the strong comparison of RFC 9110, 8.8.3.2 refuses.
        """
        version, has_word, rest = tag.opaque.partition("-")
        if version != str(self.version) or (tag.weak and not weak):
            return False
        if not has_word or rest == self.word:
            return True
        word, has_digest, digest = rest.partition("-")
        if weak:
            word = _CODING_SUFFIX.sub("", word)
        elif has_digest and not _DIGEST.match(digest):
            return False
        return word == self.word


def names_representation(tag: EntityTag, current: EntityTag) -> bool:
    """Tell whether ``tag``, from If-None-Match, stands for the representation tagged ``current``.

    The weak comparison of RFC 9110, 8.8.3.2; and what a compressing server appended to our tag is not held against it.
    """
    return tag.opaque == current.opaque or _CODING_SUFFIX.sub("", tag.opaque) == current.opaque


@lru_cache(maxsize=1024)  # a write asks for the word of its row before and after
def _word(row: str) -> str:
    return blake2s(row.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _tag(found: re.Match[str]) -> EntityTag:
    return EntityTag(opaque=found[2], weak=found[1] is not None)


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position

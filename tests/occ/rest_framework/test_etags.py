"""Entity tags: the header's grammar, and what a tag stands for. No database."""

from __future__ import annotations

import contextlib
import string
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from occ.etags import ANY, NOTHING, EntityTag, MalformedTagList, RowVersion, TagList, names_representation, parse

ROW = RowVersion(version=42, label="library.book", pk=7)
OTHER_ROW = RowVersion(version=42, label="library.book", pk=8)

opaque_texts = st.text(st.sampled_from([chr(n) for n in (0x21, *range(0x23, 0x7F), *range(0x80, 0x100))]))
entity_tags = st.builds(EntityTag, opaque=opaque_texts, weak=st.booleans())
# Text made of what the grammar is made of gets further into the parser than any text does.
header_like = st.text(st.sampled_from('"W/*, \t-0123abc\x80\xff;=')) | st.text(st.characters(max_codepoint=0x2FF))


@pytest.mark.parametrize(
    ("header", "parsed"),
    [
        ("*", ANY),
        (" *\t", ANY),
        ("", NOTHING),
        (" , ,\t,", NOTHING),
        ('"a"', TagList(tags=(EntityTag(opaque="a"),))),
        ('""', TagList(tags=(EntityTag(opaque=""),))),
        ('W/"a"', TagList(tags=(EntityTag(opaque="a", weak=True),))),
        ('"*"', TagList(tags=(EntityTag(opaque="*"),))),
        ('"a,b" ,,W/"c"', TagList(tags=(EntityTag(opaque="a,b"), EntityTag(opaque="c", weak=True)))),
        ('"a\\"', TagList(tags=(EntityTag(opaque="a\\"),))),
    ],
)
def test_a_header_is_a_star_or_a_list_of_tags(header: str, parsed: TagList) -> None:
    assert parse(header) == parsed


@pytest.mark.parametrize(
    "header", ["a", '"a', 'a"', '"a" "b"', '*, "a"', 'w/"a"', 'W/ "a"', '"a b"', '"a\n"', '"\u0100"']
)
def test_a_header_that_is_neither_is_malformed_as_a_whole(header: str) -> None:
    with pytest.raises(MalformedTagList, match=r"^No entity tag at character 10\.$"):
        parse(f'"first", {header}')


@given(st.lists(entity_tags, min_size=1), st.sampled_from([",", ", ", " ,\t", ",,", " , , "]))
def test_every_list_of_tags_is_read_as_it_was_written(tags: list[EntityTag], separator: str) -> None:
    assert parse(separator.join(map(str, tags))) == TagList(tags=tuple(tags))


@given(header_like)
def test_any_text_is_a_list_or_malformed(header: str) -> None:
    try:
        parsed = parse(header)
    except MalformedTagList:
        return

    assert parsed.any == (header.strip(" \t") == "*")
    assert parsed.any or parse(",".join(map(str, parsed.tags))) == parsed


@pytest.mark.parametrize(
    "piece", ['"a",', ",", " ", '"', '"a" ', "W/", 'W/"', "\xff", '"\xff', ', ,"x" \t', "*", '"a"b', "\t ,\t "]
)
def test_parsing_takes_time_linear_in_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        header = (piece * length)[:length]
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            with contextlib.suppress(MalformedTagList):
                parse(header)
            best = min(best, time.process_time() - start)
        return best

    short, long = seconds(20_000), seconds(320_000)

    assert long < 16 * 4 * max(short, 0.0005)


@pytest.mark.parametrize(
    ("opaque", "lenient", "strict"),
    [
        ("42-{word}", True, True),
        ("42", True, True),
        ("42-{word}-0123456789abcdef", True, True),
        ("42-{word}-gzip", True, False),
        ("42-{word}--gzip", True, False),
        ("42-{word};gzip", True, False),
        ("42-{word}-br", True, False),
        ("42-{word}-0123456789abcdef-gzip", True, False),
        ("42-", False, False),
        ("42-gzip", False, False),
        ("42-{other}", False, False),
        ("43-{word}", False, False),
        ("042", False, False),
        ("4", False, False),
        ("", False, False),
        ("*", False, False),
        ("-42", False, False),
        ("42-{word}X", False, False),
    ],
)
def test_a_tag_stands_for_version_and_identity(opaque: str, lenient: bool, strict: bool) -> None:
    tag = EntityTag(opaque=opaque.format(word=ROW.word, other=OTHER_ROW.word))

    assert (ROW.is_named_by(tag, weak=True), ROW.is_named_by(tag, weak=False)) == (lenient, strict)


def test_a_weak_tag_counts_where_the_project_says_so() -> None:
    tag = EntityTag(opaque=ROW.tag().opaque, weak=True)

    assert (ROW.is_named_by(tag, weak=True), ROW.is_named_by(tag, weak=False)) == (True, False)


@given(st.integers(1, 2**63), st.text(string.ascii_lowercase, min_size=1), st.integers() | st.uuids() | st.text())
def test_a_rows_own_tag_stands_for_it_and_for_no_other_version(version: int, label: str, pk: Any) -> None:
    row = RowVersion(version=version, label=label, pk=pk)
    following = RowVersion(version=version + 1, label=label, pk=pk)

    for tag in (row.tag(), row.tag(b"content")):
        (parsed,) = parse(str(tag)).tags
        assert row.is_named_by(parsed, weak=False)
        assert not following.is_named_by(parsed, weak=True)


@given(header_like)
def test_nothing_but_the_version_stands_for_it(header: str) -> None:
    try:
        tags = parse(header).tags
    except MalformedTagList:
        return

    assert all(tag.opaque.split("-")[0] == "42" for tag in tags if ROW.is_named_by(tag, weak=True))


def test_the_word_stays_what_it_was_for_tags_that_are_out() -> None:
    assert RowVersion(version=3, label="library.book", pk=7).word == "9a1f6c99"
    assert len(RowVersion(version=3, label="library.book", pk="\ud800").word) == 8  # JSON can carry half a character


def test_another_content_is_another_representation_of_the_same_version() -> None:
    one, two = ROW.tag(b"one"), ROW.tag(b"two")

    assert names_representation(EntityTag(opaque=one.opaque, weak=True), one)
    assert names_representation(EntityTag(opaque=f"{one.opaque}-gzip"), one)
    assert not names_representation(two, one)
    assert not names_representation(ROW.tag(), one)

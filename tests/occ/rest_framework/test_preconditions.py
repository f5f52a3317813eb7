"""Preconditions: what a request expects of a row, and the verdict. No database."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from occ.etags import NOTHING, RowVersion, parse
from occ.preconditions import MalformedPrecondition, Precondition, Verdict, from_body, from_header

ROW = RowVersion(version=42, label="library.book", pk=7)
TAG = str(ROW.tag())


def expecting(if_match: str = "", if_none_match: str = "", version: int | None = None) -> Precondition:
    return Precondition(if_match=parse(if_match), if_none_match=parse(if_none_match), version=version)


@pytest.mark.parametrize(
    ("precondition", "required", "not_required"),
    [
        (expecting(), Verdict.MISSING, Verdict.HOLDS),
        (expecting(TAG), Verdict.HOLDS, Verdict.HOLDS),
        (expecting("*"), Verdict.HOLDS, Verdict.HOLDS),
        (expecting(f'"41", {TAG}'), Verdict.HOLDS, Verdict.HOLDS),
        (expecting('"41"'), Verdict.STALE_TAG, Verdict.STALE_TAG),
        (expecting(version=42), Verdict.HOLDS, Verdict.HOLDS),
        (expecting(version=41), Verdict.STALE_VERSION, Verdict.STALE_VERSION),
        (expecting(TAG, version=41), Verdict.STALE_VERSION, Verdict.STALE_VERSION),
        (expecting('"41"', version=41), Verdict.STALE_TAG, Verdict.STALE_TAG),
        (expecting(TAG, TAG), Verdict.NAMED, Verdict.NAMED),
        (expecting('"41"', TAG), Verdict.STALE_TAG, Verdict.STALE_TAG),
        (expecting("", "*"), Verdict.NAMED, Verdict.NAMED),
        (expecting("", TAG), Verdict.MISSING, Verdict.NAMED),
        (expecting("", f'"41", W/{TAG}'), Verdict.MISSING, Verdict.NAMED),
        (expecting("", '"q"'), Verdict.MISSING, Verdict.HOLDS),
    ],
)
def test_a_write_is_judged_in_order(precondition: Precondition, required: Verdict, not_required: Verdict) -> None:
    assert precondition.judge_write(ROW, required=True, weak=True) is required
    assert precondition.judge_write(ROW, required=False, weak=True) is not_required


@pytest.mark.parametrize(
    ("precondition", "strict", "lenient"),
    [
        (expecting(), Verdict.HOLDS, Verdict.HOLDS),
        (expecting(TAG), Verdict.HOLDS, Verdict.HOLDS),
        (expecting(f"W/{TAG}"), Verdict.STALE_TAG, Verdict.HOLDS),
        (expecting('"41"'), Verdict.STALE_TAG, Verdict.STALE_TAG),
        (expecting("", "*"), Verdict.HOLDS, Verdict.HOLDS),
        (expecting(version=41), Verdict.HOLDS, Verdict.HOLDS),
    ],
)
def test_of_a_read_if_match_alone_is_judged(precondition: Precondition, strict: Verdict, lenient: Verdict) -> None:
    assert precondition.judge_read(ROW, weak=False) is strict
    assert precondition.judge_read(ROW, weak=True) is lenient


@pytest.mark.parametrize(
    ("if_none_match", "known"),
    [("", False), ("*", True), ('"41"', False), (TAG, True), (f'"41", {TAG}', True), (f"W/{TAG}", True)],
)
def test_a_reader_knows_what_if_none_match_names(if_none_match: str, known: bool) -> None:
    assert expecting(if_none_match=if_none_match).is_known(ROW.tag()) is known


@pytest.mark.parametrize(
    ("precondition", "pins", "expected"),
    [
        (expecting(), False, None),
        (expecting("*"), False, None),
        (expecting('"41-9f3c1a2b"'), True, 41),
        (expecting('"41-9f3c1a2b", "41"'), True, 41),
        (expecting('"41", "40"'), True, None),
        (expecting('"nobody"'), True, None),
        (expecting(f'"{"9" * 5000}"'), True, None),
        (expecting("*", version=40), True, 40),
    ],
)
def test_what_the_client_says_of_the_version(precondition: Precondition, pins: bool, expected: int | None) -> None:
    assert (precondition.pins_version, precondition.expected_version) == (pins, expected)


@pytest.mark.parametrize(("value", "version"), [(42, 42), ("42", 42), ("0042", 42), (-1, -1), (10**40, 10**40)])
def test_a_version_in_a_body_is_a_number_or_one_written_out(value: Any, version: int) -> None:
    assert from_body(value) == version


@given(
    st.none()
    | st.booleans()
    | st.floats()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.integers())
    | st.text().filter(lambda text: not (text.isascii() and text.isdigit()))
    | st.just("9" * 5000)
)
def test_anything_else_is_malformed(value: Any) -> None:
    with pytest.raises(MalformedPrecondition) as caught:
        from_body(value)

    assert (caught.value.source, str(caught.value)[:23]) == ("body", "The version in the body")


def test_an_absent_header_says_nothing_and_a_malformed_one_is_refused_with_its_name() -> None:
    assert from_header(None, "If-Match") == from_header("", "If-Match") == NOTHING
    with pytest.raises(MalformedPrecondition, match="^If-None-Match must be") as caught:
        from_header("7", "If-None-Match")

    assert caught.value.source == "If-None-Match"

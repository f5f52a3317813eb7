"""The comparison of Django's suite, guarded and control: what counts as a difference, and what the list must say."""

from collections import Counter

import pytest

from tests.django_suite.outcomes import Comparison, compare, parse_allowed

PASSED = {"outcome": "passed"}
FAILED = {"outcome": "failed", "reason": "Conflict: refused", "traceback": ""}

LIST = """
[[contradicts]]
row = "a new instance"
because = "Django overwrites the row."
tests = ["a.T.test_one", "a.T.test_two"]

[[contradicts]]
row = "select_on_save"
because = "No SELECT before the UPDATE."
since = "6.0"
tests = ["b.T.test_three"]
"""


def test_a_test_that_fails_only_when_guarded_is_unexplained_unless_listed():
    control = {"checks": [], "tests": {"both": FAILED, "allowed": PASSED, "bug": PASSED, "fine": PASSED}}
    guarded = {"checks": ["E1"], "tests": {"both": FAILED, "allowed": FAILED, "bug": FAILED, "fine": PASSED}}

    comparison = compare(control, guarded, {"allowed": "a new instance"})

    assert comparison == Comparison(
        control=Counter(passed=3, failed=1),
        guarded=Counter(passed=1, failed=3),
        differences=["allowed", "bug"],
        unexplained=["bug: Conflict: refused", "check: E1"],
    )


def test_a_test_that_did_not_run_is_a_difference():
    comparison = compare({"checks": [], "tests": {"lost": PASSED}}, {"checks": [], "tests": {}}, {})

    assert comparison.unexplained == ["lost: did not run"]


def test_an_entry_that_is_no_longer_needed_is_told():
    run = {"checks": [], "tests": {"fixed": PASSED}}

    assert compare(run, run, {"fixed": "a row"}).unexplained == ["fixed: it passes, take it off the list"]


def test_the_list_depends_on_the_version_of_django():
    assert parse_allowed(LIST, (5, 2)) == {"a.T.test_one": "a new instance", "a.T.test_two": "a new instance"}
    assert parse_allowed(LIST, (6, 1)).keys() == {"a.T.test_one", "a.T.test_two", "b.T.test_three"}


def test_an_entry_must_cite_a_row():
    with pytest.raises(ValueError, match="needs a row"):
        parse_allowed('[[contradicts]]\nbecause = "x"\ntests = ["a"]\n', (5, 2))

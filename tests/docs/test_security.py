"""SECURITY.md names a test for each threat: these tests exist."""

import re

from tests.docs.projects import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_threat_names_a_test_that_there_is() -> None:
    rows = re.findall(r"^\| (\*\*.+) \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)

    named = {threat: re.findall(r"`(tests/\S+\.py)::(\w+)`", tests) for threat, _, tests in rows}
    missing = [
        f"{path}::{name}"
        for tests in named.values()
        for path, name in tests
        if not re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]

    assert len(rows) == TEXT.count("\n| **")
    assert [threat for threat, tests in named.items() if not tests] == []
    assert missing == []

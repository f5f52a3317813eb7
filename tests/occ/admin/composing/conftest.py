"""These tests need the packages that the mixin is composed with; the tox environment ``composing`` has them."""

import os

import pytest

PACKAGES = ("guardian", "import_export", "reversion", "simple_history", "unfold")


def pytest_ignore_collect(collection_path: object) -> bool | None:
    from importlib.util import find_spec

    here = all(find_spec(name) for name in PACKAGES)
    if not here and os.environ.get("OCC_COMPOSING") == "1":
        pytest.fail(f"Not all installed: {', '.join(PACKAGES)}", pytrace=False)
    return None if here else True

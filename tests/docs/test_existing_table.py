"""The code blocks of the how-tos about existing tables; tests/occ/test_existing_table.py tests what they lead to."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import migrations
from django.db.migrations.operations.base import Operation
from django.test.utils import isolate_apps

BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
TEXT = "".join((HOW_TO / name).read_text() for name in ("existing-table.md", "from-django-concurrency.md"))


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "tests.triggers.models"}
    with isolate_apps("tests.triggers"):
        exec(compile(source, "a how-to", "exec"), names)
    return names


@pytest.mark.parametrize("source", [source for name, source in BLOCK.findall(TEXT) if name.endswith("models.py")])
def test_its_models_pass_their_checks(source: str) -> None:
    names = run(source)

    (model,) = [value for name, value in names.items() if name in ("Deployment", "Order")]
    assert [message for message in model.check() if message.is_serious()] == []
    assert model._occ_version_field.name == "version"


def test_its_migrations_have_the_operations_that_it_talks_of() -> None:
    found: list[list[type[Operation]]] = []
    for name, source in BLOCK.findall(TEXT):
        if "/migrations/" in name:
            found.append([type(operation) for operation in run(source)["Migration"].operations])

    assert [[kind.__name__ for kind in kinds] for kinds in found] == [
        ["AddVersionTrigger"],
        [migrations.SeparateDatabaseAndState.__name__, migrations.RunSQL.__name__],
    ]

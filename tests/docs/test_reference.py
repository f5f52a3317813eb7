"""The reference holds every public name, setting and command; `make docs` makes its text from the docstrings."""

import importlib
import re
from typing import Any

import pytest
from django.core.management import get_commands

from occ.conf import occ_settings
from reconcilers.conf import reconciler_settings
from tests.docs.projects import ROOT

REFERENCE = ROOT / "docs" / "reference"

DIRECTIVE = re.compile(
    r"^\.\. (?P<kind>auto\w+|currentmodule):: (?P<name>\S+)\n(?P<options>(?:   :[\w-]+:.*\n)*)", re.MULTILINE
)
MEMBERS = re.compile(r":members:(.*)")

# The public modules. Those without __all__ promise the names that stand here.
MODULES: dict[str, list[str] | None] = {
    "occ": None,
    "occ.admin": None,
    "occ.client": ["AsyncClient", "Client", "NoTag", "StillStale"],
    "occ.constraints": ["VersionTrigger"],
    "occ.diffs": ["FieldDiff", "compare", "refresh", "remember"],
    "occ.fields": ["VersionField"],
    "occ.forms": None,
    "occ.models": None,
    "occ.operations": ["AddVersionTrigger", "RemoveVersionTrigger"],
    "occ.ownership": None,
    "occ.rest_framework": None,
    "occ.testing": None,
    "reconcilers": None,
    "reconcilers.controller": ["Outcome", "turn"],
    "reconcilers.exceptions": ["InvalidKey", "InvalidReconciler", "LeaseLost", "UnknownReconciler"],
    "reconcilers.models": ["WorkItem"],
    "reconcilers.testing": ["InlineRunner", "assert_idempotent", "conflicts", "not_mutated", "registered"],
    "reconcilers.workqueue": None,
}


def documented() -> set[str]:
    """Return the full names that the directives of the reference document."""
    found: set[str] = set()
    for page in sorted(REFERENCE.glob("*.rst")):
        module = ""
        for directive in DIRECTIVE.finditer(page.read_text()):
            kind, name = directive["kind"], directive["name"]
            if kind in ("automodule", "currentmodule"):
                module = name
                found |= {f"{module}.{member}" for member in members_of(module, directive["options"])}
            else:
                found |= {name, f"{module}.{name}"}
    return found


def members_of(module: str, options: str) -> list[str]:
    members = MEMBERS.search(options)
    if members is None:
        return []
    named = [name.strip() for name in members[1].split(",") if name.strip()]
    return named or public_names(module)


def public_names(module: str) -> list[str]:
    imported = importlib.import_module(module)
    own = [name for name, value in vars(imported).items() if getattr(value, "__module__", None) == module]
    return list(getattr(imported, "__all__", [name for name in own if not name.startswith("_")]))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    if module.startswith("occ.rest_framework"):
        pytest.importorskip("rest_framework")
    names = MODULES[module] or public_names(module)
    imported = importlib.import_module(module)

    known = [found(name) for name in documented()]  # perhaps by another of its names
    missing = [name for name in names if not any(getattr(imported, name) is each for each in known)]

    assert missing == []


def found(full_name: str) -> Any:
    """Return what has this name, or None."""
    module, _, name = full_name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None) if module else None
    except ImportError:
        return None


@pytest.mark.parametrize("module", [name for name, names in MODULES.items() if names])
def test_names_are_promised_only_where_there_is_no_all(module: str) -> None:
    imported = importlib.import_module(module)

    assert not hasattr(imported, "__all__")
    assert [name for name in MODULES[module] or [] if not getattr(imported, name).__doc__] == []


@pytest.mark.parametrize(
    ("setting", "configured"), [("OCC", occ_settings), ("RECONCILERS", reconciler_settings)], ids=["OCC", "RECONCILERS"]
)
def test_every_setting_is_documented_with_its_default(setting: str, configured: Any, settings: Any) -> None:
    setattr(settings, setting, {})
    keys = [name for name, value in vars(type(configured)).items() if isinstance(value, property)]

    text = (REFERENCE / "settings.md").read_text().split(f"## {setting}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.+) \|$", text, re.MULTILINE)

    told = {name: default.replace('"', "'") for name, default, _ in rows}
    assert told == {key: repr(getattr(configured, key)) for key in keys}


def test_every_command_is_documented() -> None:
    ours = {name for name, app in get_commands().items() if app in ("occ", "occ.contention", "reconcilers")}

    shown = re.findall(r"^```\{command-help\} (\w+)$", (REFERENCE / "commands.md").read_text(), re.MULTILINE)

    assert sorted(shown) == sorted(ours)


def test_every_signal_is_documented() -> None:
    for module in ("occ.signals", "reconcilers.signals"):
        imported = importlib.import_module(module)
        public = [name for name, value in vars(imported).items() if type(value).__name__ == "Signal"]

        assert [name for name in public if f"``{name}" not in (imported.__doc__ or "")] == []
        assert f".. automodule:: {module}\n" in (REFERENCE / "signals.rst").read_text()


def test_every_system_check_has_its_place_in_the_page_about_them() -> None:
    ids = re.compile(r'id="((?:occ|reconcilers)\.[A-Z]\d{3})"')
    sources = [path.read_text() for package in ("occ", "reconcilers") for path in (ROOT / package).rglob("*.py")]
    headings = re.findall(r"^### (\S+)$", (REFERENCE / "checks.md").read_text(), re.MULTILINE)

    given = [found for source in sources for found in set(ids.findall(source))]
    assert sorted(headings) == sorted(given), "a number is documented once, and given out by one module"

"""What the wheel and the source distribution hold, and what they say about themselves."""

import email
import re
import sys
import tarfile
import zipfile
from email.message import Message
from fnmatch import fnmatch
from pathlib import Path

import pytest

import occ
from tests.packaging.conftest import run

pytestmark = pytest.mark.xdist_group("distributions")

DOCUMENTS = ["CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"]


def packages(tracked: list[str]) -> list[str]:
    return [path for path in tracked if path.startswith(("occ/", "reconcilers/"))]


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_files_of_the_two_packages_and_nothing_else(wheel: Path, tracked: list[str]) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]

    assert sorted(names) == sorted(packages(tracked))


@pytest.mark.parametrize(
    "pattern",
    [
        "occ/py.typed",
        "occ/locale/de/LC_MESSAGES/django.mo",
        "occ/static/occ/admin.css",
        "occ/templates/occ/conflict.html",
        "occ/contention/migrations/0*.py",
        "reconcilers/py.typed",
        "reconcilers/locale/de/LC_MESSAGES/django.mo",
        "reconcilers/management/commands/runreconcilers.py",
        "reconcilers/migrations/0*.py",
        "reconcilers/templates/reconcilers/overview.html",
    ],
)
def test_the_wheel_holds_what_is_no_module_too(wheel: Path, pattern: str) -> None:
    assert [name for name in zipfile.ZipFile(wheel).namelist() if fnmatch(name, pattern)] != []


def test_the_source_distribution_holds_the_packages_and_the_documents(distributions: Path, tracked: list[str]) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]

    docs = [path for path in tracked if path.startswith("docs/")]
    assert sorted(names) == sorted([*packages(tracked), *docs, *DOCUMENTS, ".gitignore", "PKG-INFO", "pyproject.toml"])


def test_twine_finds_nothing_to_complain_about(distributions: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions.iterdir()))


def test_the_version_is_that_of_the_package(metadata: Message, wheel: Path) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("django-occ", occ.__version__)
    assert wheel.name == f"django_occ-{occ.__version__}-py3-none-any.whl"


def test_django_alone_is_required(metadata: Message) -> None:
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]

    assert required == ["django>=5.2"]


def test_the_page_of_the_package_index_links_to_no_file_that_is_not_there(
    metadata: Message, tracked: list[str]
) -> None:
    page = metadata.get_payload()

    assert isinstance(page, str)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", page) == []
    named = re.findall(r" \(`([\w./-]+)`\)", page)
    assert "docs/tutorial.md" in named
    assert set(named) - set(tracked) == set()


def test_the_classifiers_name_the_versions_that_are_tested(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    versions = [text.rpartition(" ")[2] for text in classifiers if re.fullmatch(r".* :: \d\.\d+", text)]

    assert versions == ["5.2", "6.0", "6.1", "3.11", "3.12", "3.13"]
    tox = (Path(__file__).parents[2] / "tox.ini").read_text()
    assert re.findall(r"\bpy(\d)(\d+)-django(\d)(\d)", tox)[:3] == [
        ("3", "11", "5", "2"),
        ("3", "12", "6", "0"),
        ("3", "13", "6", "1"),
    ]

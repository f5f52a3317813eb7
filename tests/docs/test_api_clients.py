"""The recipes for HTTP clients, run against a live server: none is lost, though all of them write at once."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.docs.projects import ROOT
from tests.kit.processes import Processes
from tests.kit.services import require
from tests.library.models import Book

pytestmark = [pytest.mark.urls("tests.occ.rest_framework.api"), pytest.mark.django_db(transaction=True)]

BLOCK = re.compile(r"^```(sh|js|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = ["curl", "requests", "fetch", "client", "async client"]


@pytest.fixture
def book() -> Book:
    return Book.objects.create(title="Emma", stock=1)


@pytest.fixture
def recipes(book: Book, live_server: LiveServer) -> dict[str, tuple[str, str]]:
    """The language and the text of each recipe, about this server and this row."""
    text = (ROOT / "docs/how-to/api-clients.md").read_text()
    text = text.replace("https://shop.example", live_server.url).replace("/books/1/", f"/books/{book.pk}/")
    return dict(zip(NAMES, BLOCK.findall(text), strict=True))


def command(recipe: tuple[str, str], folder: Path) -> list[str]:
    language, text = recipe
    file = folder / {"sh": "recipe.sh", "js": "recipe.mjs", "python": "recipe.py"}[language]
    file.write_text(text.replace("book.json", str(folder / "book.json")))
    return {"sh": ["sh", "-eu", str(file)], "js": ["node", str(file)], "python": [sys.executable, str(file)]}[language]


def test_the_recipe_for_curl_writes(
    recipes: dict[str, tuple[str, str]], book: Book, tmp_path: Path, plain_processes: Processes
) -> None:
    require("curl")

    done = plain_processes.start(*command(recipes["curl"], tmp_path))

    assert done.wait(timeout=60) == 0, done.output
    assert Book.objects.values_list("version", "stock").get() == (2, 6)


def test_the_recipe_for_curl_fails_when_the_tag_is_stale(
    recipes: dict[str, tuple[str, str]], book: Book, tmp_path: Path, plain_processes: Processes
) -> None:
    require("curl")
    language, text = recipes["curl"]
    stale = re.sub(r"^tag=.*$", "tag='\"9\"'", text, flags=re.MULTILINE)

    done = plain_processes.start(*command((language, stale), tmp_path))

    assert done.wait(timeout=60) == 22, done.output
    assert Book.objects.values_list("version", "stock").get() == (1, 1)


def test_recipes_that_write_at_once_lose_nothing(
    recipes: dict[str, tuple[str, str]], book: Book, tmp_path: Path, plain_processes: Processes
) -> None:
    require("node")
    started = []
    for name in NAMES[1:]:
        folder = tmp_path / name
        folder.mkdir()
        started.append(plain_processes.start(*command(recipes[name], folder), env={"PYTHONPATH": str(ROOT)}))

    statuses = [(process.wait(timeout=120), process.output) for process in started]

    assert statuses == [(0, "")] * 4
    assert Book.objects.values_list("version", "stock").get() == (5, 5)

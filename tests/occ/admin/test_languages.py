"""Every sentence can be translated; the German catalogues are complete and compiled."""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.utils.translation import template

import occ.admin
from tests.library.models import Book
from tests.occ.admin.editors import Editor

ROOT = Path(occ.admin.__file__).parent.parent.parent
PACKAGES = ["occ", "reconcilers"]
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"}


def catalogue(package: str, kind: str = "po") -> Path:
    return ROOT / package / "locale" / "de" / "LC_MESSAGES" / f"django.{kind}"


def entries(package: str) -> list[tuple[str, list[str]]]:
    """The catalogue's source: each message with its translations."""
    found = []
    for block in catalogue(package).read_text().split("\n\n")[1:]:
        text = re.sub(r'"\n"', "", "\n".join(line for line in block.splitlines() if not line.startswith("#")))
        message = re.search(r'^msgid "(.*)"$', text, re.M)
        translations = re.findall(r'^msgstr(?:\[\d])? "(.*)"$', text, re.M)
        if message:
            found.append((_plain(message[1]), [_plain(translation) for translation in translations]))
    return found


def messages(package: str) -> Iterator[str]:
    """The sentences that modules and templates mark for translation, as makemessages would find them."""
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
                yield ast.literal_eval(node.args[0])
    for path in (ROOT / package).rglob("templates/**/*.html"):
        # What is no call of gettext is made X's there.
        code = template.templatize(path.read_text())
        for mark in re.finditer(r"\b(?:_|n?gettext)\((u?'(?:[^'\\]|\\.)*'|u?\"(?:[^\"\\]|\\.)*\")", code):
            yield ast.literal_eval(mark[1])


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_german_catalogue_has_every_sentence_of_the_source(package: str) -> None:
    assert {message for message, _ in entries(package)} == set(messages(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_german_catalogue_is_complete_and_compiled(package: str) -> None:
    with catalogue(package, "mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)

    assert [message for message, translations in entries(package) if not all(translations)] == []
    assert {
        message
        for message, translations in entries(package)
        if compiled.gettext(message) not in translations and compiled.ngettext(message, message, 1) not in translations
    } == set()
    assert "fuzzy" not in catalogue(package).read_text()


@pytest.mark.parametrize(
    "message,translations",
    [pytest.param(*entry, id=f"{package}: {entry[0][:40]}") for package in PACKAGES for entry in entries(package)],
)
def test_translations_have_the_places_of_the_original(message: str, translations: list[str]) -> None:
    places = set(re.findall(r"%\(\w+\)[ds]|</?b>", message))

    # A singular may leave the number out.
    assert all(set(re.findall(r"%\(\w+\)[ds]|</?b>", text)) - {"%(count)d"} == places for text in translations)


def test_a_conflict_in_german(ann: Editor, bob: Editor, book: Book, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", stock="11")

    page = bob.submit(price="45.00", title="Book One")

    assert "Noch nicht gespeichert: book wurde geändert, nachdem Sie es geöffnet hatten." in page.text
    assert "3 Felder unterscheiden sich: 1 braucht Ihre Entscheidung, 2 wurden für Sie zusammengeführt" in page.text
    assert "Price wählen 50,00 99,00 behalten: Price 45,00 nehmen: Price" in page.text
    assert "ann" in page.text
    bob.submit(occ_choice_price="theirs")
    assert LogEntry.objects.filter(user=bob.user).latest("pk").get_change_message() == (
        "Fassung 2 beibehalten (geöffnet: Fassung 1) in: Stock und Price."
    )

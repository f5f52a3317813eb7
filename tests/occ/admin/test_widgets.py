"""Every kind of widget and relation, in several languages; and forms whose fields depend on the object."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from occ.forms import read_token
from tests.library.models import Anthology, Author, Book, Credit, Gate, Remark, Shelf, Tag
from tests.occ.admin.editors import Editor

REMARKS = "library-remark-content_type-object_id"
LOCALES = [
    pytest.param("en-us", False, "UTC", id="English"),
    pytest.param("de", True, "Europe/Berlin", id="German, with thousands separators"),
    pytest.param("de", False, "Asia/Tokyo", id="German, in Tokyo"),
    pytest.param("ar", True, "UTC", id="Arabic"),
    pytest.param("hi", True, "Asia/Kolkata", id="Hindi"),
]


@pytest.fixture(autouse=True)
def widgets(settings: Any, admin_urls: None, ann: Editor, bob: Editor) -> None:
    settings.ROOT_URLCONF = "tests.occ.admin.widgets_site"
    ann.site = bob.site = "widgets"


@pytest.fixture
def gate(db: None) -> Gate:
    return Gate.objects.create(
        name="North",
        price="1234.50",
        replicas=12345,
        opens_at=datetime.datetime(2026, 12, 24, 18, 30, 15, 123456, tzinfo=datetime.UTC),
        author=Author.objects.create(name="Ursula"),
        spec={"ä": [1, 2]},
    )


def values(gate: Gate) -> tuple[Any, ...]:
    gate.refresh_from_db()
    return gate.name, gate.price, gate.replicas, gate.opens_at, gate.author_id, gate.spec, [*gate.tags.all()]


def speak(settings: Any, language: str, separators: bool, zone: str) -> None:
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR, settings.TIME_ZONE = language, separators, zone


@pytest.mark.parametrize(("language", "separators", "zone"), LOCALES)
def test_a_page_nobody_touched_changes_nothing(
    ann: Editor, gate: Gate, settings: Any, language: str, separators: bool, zone: str
) -> None:
    speak(settings, language, separators, zone)
    before = values(gate)
    ann.open(gate)

    ann.submit()

    assert values(gate) == before
    assert gate.version == 1


@pytest.mark.parametrize(("language", "separators", "zone"), LOCALES)
def test_values_of_the_others_are_kept_in_every_widget(
    bob: Editor, gate: Gate, settings: Any, language: str, separators: bool, zone: str
) -> None:
    speak(settings, language, separators, zone)
    bob.open(gate)
    tag, author = Tag.objects.create(name="open"), Author.objects.create(name="Iain")
    opens = datetime.datetime(2027, 1, 1, 1, 1, 1, 1, tzinfo=datetime.UTC)
    Gate.objects.update(price="2345.60", replicas=99999, opens_at=opens, author=author, spec={"b": None})
    gate.tags.add(tag)

    page = bob.submit(name="South")

    assert page.status == 409
    bob.submit()
    assert values(gate) == ("South", Decimal("2345.60"), 99999, opens, author.pk, {"b": None}, [tag])


@pytest.mark.parametrize(("language", "separators", "zone"), LOCALES)
def test_values_of_the_others_can_be_chosen_in_every_widget(
    bob: Editor, gate: Gate, settings: Any, language: str, separators: bool, zone: str
) -> None:
    speak(settings, language, separators, zone)
    author = Author.objects.create(name="Iain")
    bob.open(gate)
    opens = datetime.datetime(2028, 1, 1, tzinfo=datetime.UTC)
    Gate.objects.update(price="3000.00", replicas=7, opens_at=opens, author=None, spec={})

    page = bob.submit(price="4000", replicas="8", opens_at_1="10:00:00", author=str(author.pk), spec='{"a":[1,2]}')

    assert sorted(page.radios) == [f"occ_choice_{name}" for name in ("author", "opens_at", "price", "replicas", "spec")]
    bob.submit(**dict.fromkeys(page.radios, "theirs"))
    assert values(gate) == ("North", Decimal("3000.00"), 7, opens, None, {}, [])


def test_json_that_the_page_writes_anew_is_no_choice(bob: Editor, gate: Gate) -> None:
    bob.open(gate)
    Gate.objects.update(spec={"theirs": 1})
    bob.submit(spec='{"mine":1}')

    page = bob.submit()

    assert page.status == 409
    assert values(gate)[5] == {"theirs": 1}


def test_fields_that_the_page_did_not_have_are_not_emptied(bob: Editor, book: Book) -> None:
    bob.open(book)
    Book.objects.update(stock=0)

    page = bob.submit(title="Book One")

    assert page.status == 409
    assert "You can no longer change" not in page.text
    assert "Notes yours kept" not in page.text
    bob.submit()
    book.refresh_from_db()
    assert (book.title, book.stock, book.notes) == ("Book One", 0, "Reprint planned\nfor spring.")


def test_fields_that_the_page_did_not_have_are_not_emptied_by_a_merge(
    bob: Editor, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.occ.admin import widgets_site

    monkeypatch.setattr(widgets_site.BookAdmin, "occ_conflict", "merge")
    bob.open(book)
    Book.objects.update(stock=0)

    page = bob.submit(title="Book One")

    assert page.status == 302
    book.refresh_from_db()
    assert (book.title, book.stock, book.notes) == ("Book One", 0, "Reprint planned\nfor spring.")


def test_what_was_typed_into_a_field_that_is_gone_is_told(bob: Editor, book: Book) -> None:
    bob.open(book)
    Book.objects.update(stock=-1)

    page = bob.submit(title="Book <One>")

    assert page.status == 409
    assert "You can no longer change these fields. You had typed: Title = Book <One>" in page.text
    assert "Book <One>" not in page.html
    page = bob.submit(price="7.00")
    assert page.status == 302
    book.refresh_from_db()
    assert (book.title, str(book.price)) == ("Book 1", "7.00")


def test_only_what_was_changed_is_told_and_no_secret(bob: Editor, book: Book) -> None:
    tag = Tag.objects.create(name="fiction")
    book.tags.add(tag)
    bob.open(book)
    Book.objects.update(stock=0)

    page = bob.submit(price="7.00", details='{"key": "secret"}')

    assert "You had typed: Price = 7.00, Details = •••••• " in page.text
    assert "secret" not in page.html


def test_a_key_cannot_be_edited(ann: Editor) -> None:
    shelf = Shelf.objects.create(code="a", label="one")
    ann.open(shelf)

    page = ann.submit(code="b", label="two")

    assert page.status == 200
    assert "This identifies the shelf and cannot be changed." in page.text
    assert list(Shelf.objects.values_list("code", "label")) == [("a", "one")]
    assert ann.submit(code="a").status == 302
    assert list(Shelf.objects.values_list("code", "label")) == [("a", "two")]


def test_a_version_of_many_digits_is_not_grouped(ann: Editor, settings: Any) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    shelf = Shelf.objects.create(code="a", label="one")
    ann.open(shelf)
    Shelf.objects.update(label="two")

    page = ann.submit(label="three")

    assert f"You opened version {shelf.revision} (" in page.text


def test_a_second_click_on_save_is_told_that_all_is_well(ann: Editor, book: Book) -> None:
    opened = ann.open(book)
    ann.submit(title="Book One", price="7")
    ann.page = opened

    page = ann.submit(title="Book One", price="7", follow=True)

    assert "The book “Book One” already has the values that you typed." in page.text
    book.refresh_from_db()
    assert (book.title, book.version) == ("Book One", 2)


def test_rows_through_a_model_and_rows_about_anything_are_guarded(bob: Editor) -> None:
    ursula, iain = Author.objects.create(name="Ursula"), Author.objects.create(name="Iain")
    anthology = Anthology.objects.create(title="Stars")
    credits_ = [Credit.objects.create(anthology=anthology, author=author, role="text") for author in (ursula, iain)]
    remarks = [Remark.objects.create(about=anthology, text=text) for text in ("one", "two")]
    bob.open(anthology)
    Credit.objects.filter(pk=credits_[0].pk).update(author=iain)
    Remark.objects.filter(pk=remarks[0].pk).update(text="1")
    credits_[1].delete()
    remarks[1].delete()
    typed = {"credit_set-0-role": "cover", "credit_set-1-role": "map"}

    page = bob.submit(**typed, **{f"{REMARKS}-0-text": "eins", f"{REMARKS}-1-text": "zwei"})

    assert page.status == 409
    choices = {name: "again" if name.endswith("_row") else "mine" for name in page.radios}
    assert len(choices) == 3
    assert bob.submit(**choices).status == 302
    assert [*Credit.objects.order_by("pk").values_list("author", "role")] == [(iain.pk, "cover"), (iain.pk, "map")]
    assert sorted(str(remark.about) + " " + remark.text for remark in Remark.objects.all()) == [
        "Stars eins",
        "Stars zwei",
    ]


def test_a_popup_keeps_its_field_through_a_conflict(ann: Editor, book: Book) -> None:
    ann.open(book)
    ann.url += "?_to_field=id&_popup=1"
    ann.page = type(ann.page)(ann.client.get(ann.url))
    Book.objects.update(title="Theirs")

    page = ann.submit(title="Mine")

    assert (page.status, page.data["_to_field"], page.data["_popup"]) == (409, "id", "1")
    page = ann.submit(occ_choice_title="mine")
    assert f"&quot;value&quot;: &quot;{book.pk}&quot;" in page.html


@pytest.mark.parametrize("text", ["e\u0301\u00e9", "\ufb01", "𝔘nicode 😀", "a\u200bb", "\u202eabc", "<b>&amp;"])
def test_any_text_is_compared_as_it_is_and_shown_escaped(ann: Editor, bob: Editor, book: Book, text: str) -> None:
    Book.objects.update(title=text)
    bob.open(book)
    token = read_token(bob.page.data["occ_token"])
    assert token is not None
    assert token.base["title"] == text
    Book.objects.update(title=text + "1")

    page = bob.submit(title=text + "2")

    assert page.status == 409
    assert text.startswith("<") is not (text in page.html)
    assert f"Title choose {text} Keep {text}1: Title Use {text}2: Title" in page.text
    assert bob.submit(occ_choice_title="mine").status == 302
    assert Book.objects.get().title == text + "2"

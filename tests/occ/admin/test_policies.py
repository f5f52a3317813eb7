"""What a ModelAdmin may decide: merging without asking, fields that belong together, and what is not shown."""

import pytest
from django.contrib.admin.models import LogEntry

from tests.library.models import Book
from tests.occ.admin.editors import Editor


@pytest.fixture(autouse=True)
def at_the_merging_site(ann: Editor, bob: Editor) -> None:
    ann.site = bob.site = "merging"


def values(book: Book) -> tuple[str, int, str, int]:
    book = Book.objects.get(pk=book.pk)
    return book.title, book.stock, str(book.price), book.version


def test_edits_of_different_fields_are_merged_and_told(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(title="Book One")

    page = bob.submit(stock="5", follow=True)

    assert "was changed successfully" in page.text
    assert "Title was changed by others meanwhile; their value was kept." in page.text
    assert values(book) == ("Book One", 5, "50.00", 3)
    assert [entry.get_change_message() for entry in LogEntry.objects.filter(user=bob.user).order_by("pk")] == [
        "Changed Stock.",
        "Kept version 2 (opened: version 1) in: Title.",
    ]


def test_edits_of_the_same_field_are_asked_about_all_the_same(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(title="Book One")

    page = bob.submit(title="Book Two", stock="5")

    assert page.status == 409
    assert values(book) == ("Book One", 1, "50.00", 2)


def test_a_merge_that_meets_a_third_writer_merges_again(ann: Editor, bob: Editor, book: Book) -> None:
    from tests.occ.admin.test_races import just_before_saving

    bob.open(book)
    ann.open(book)
    ann.submit(title="Book One")

    with just_before_saving(lambda book: Book.objects.filter(pk=book.pk).update(details={"a": 1})):
        page = bob.submit(stock="5", follow=True)

    assert "was changed successfully" in page.text
    assert values(book) == ("Book One", 5, "50.00", 3)


def test_fields_that_belong_together_are_not_mixed(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")

    page = bob.submit(stock="5", title="Book One")

    assert page.status == 409
    assert "Stock choose 1 Keep 1: Stock Use 5: Stock" in page.text
    assert "Price choose decided together with Stock 50.00 99.00 50.00" in page.text
    page = bob.submit()
    assert page.status == 409
    bob.submit(occ_choice_stock="mine")
    assert values(book) == ("Book One", 5, "50.00", 3)


def test_a_group_may_be_taken_as_it_is_now(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(stock="5", title="Book One")

    bob.submit(occ_choice_stock="theirs")

    assert values(book) == ("Book One", 1, "99.00", 3)


def test_passwords_are_masked_and_not_in_the_page(ann: Editor, bob: Editor, book: Book) -> None:
    Book.objects.filter(pk=book.pk).update(notes="secret-one")
    bob.open(book)
    Book.objects.filter(pk=book.pk).update(notes="secret-two")

    page = bob.submit(notes="secret-three")

    assert page.status == 409
    assert "Notes choose •••••• Keep ••••••: Notes Use ••••••: Notes" in page.text
    assert "secret-one" not in page.html
    table = page.html.split("<table", 1)[1].split("</table>")[0]
    assert "secret" not in table


def test_what_is_not_on_the_form_is_not_in_the_table(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    Book.objects.filter(pk=book.pk).update(details={"hidden": "treasure"}, title="Book One")

    page = bob.submit(title="Book Two")

    assert page.status == 409
    assert "treasure" not in page.html.split("<table", 1)[1].split("</table>")[0]
    assert "author" not in page.html.split("<table", 1)[1].split("</table>")[0].lower()


def test_view_only_people_get_a_page_without_token(book: Book) -> None:
    eve = Editor("eve", permissions=("view_book",))
    eve.site = "merging"

    page = eve.open(book)

    assert page.status == 200
    assert "occ_token" not in page.html


def test_the_mixin_works_in_a_popup_and_with_save_and_continue(ann: Editor, book: Book) -> None:
    ann.open(book)
    page = ann.submit("_continue", title="Book One", follow=True)
    assert "You may edit it again below." in page.text
    ann.page = page
    page = ann.submit(title="Book Two", _popup="1")
    assert page.status == 200
    assert "popup_response" in page.html
    assert values(book)[0] == "Book Two"

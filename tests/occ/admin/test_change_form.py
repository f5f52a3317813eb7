"""The change form: what happens to a person's edit when somebody else saved first."""

from django.contrib.admin.models import LogEntry

from tests.library.models import Author, Book, Tag
from tests.occ.admin.editors import Editor


def values(book: Book) -> tuple[str, int, str, int]:
    book = Book.objects.get(pk=book.pk)
    return book.title, book.stock, str(book.price), book.version


def test_an_edit_of_a_fresh_page_is_saved(ann: Editor, book: Book) -> None:
    ann.open(book)

    page = ann.submit(title="Book One", follow=True)

    assert values(book) == ("Book One", 1, "50.00", 2)
    assert "was changed successfully" in page.text


def test_a_stale_submit_comes_back_with_everything_typed_and_saves_nothing(
    ann: Editor, bob: Editor, book: Book
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", stock="11")

    page = bob.submit(title="Book One", price="45.00", notes="Ask the printer.")

    assert page.status == 409
    assert values(book) == ("Book 1", 11, "99.00", 2)
    assert [page.data[name] for name in ("title", "price", "notes")] == ["Book One", "45.00", "Ask the printer."]
    assert "Not saved yet: this book was changed after you opened it." in page.text
    assert "Price choose 50.00 Keep 99.00: Price Use 45.00: Price" in page.text
    assert "Stock theirs kept 1 11 1 (you did not change it)" in page.text
    assert "ann" in page.text
    assert "changed successfully" not in page.text
    assert LogEntry.objects.filter(user=bob.user).count() == 0


def test_after_a_choice_it_is_saved_against_the_newer_version(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", stock="11")
    bob.submit(title="Book One", price="45.00")

    page = bob.submit(occ_choice_price="theirs", follow=True)

    assert "was changed successfully" in page.text
    assert values(book) == ("Book One", 11, "99.00", 3)
    assert [entry.get_change_message() for entry in LogEntry.objects.filter(user=bob.user).order_by("pk")] == [
        "Changed Title.",
        "Kept version 2 (opened: version 1) in: Stock and Price.",
    ]


def test_a_field_changed_on_both_sides_needs_a_choice(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00")

    page = bob.submit()

    assert page.status == 409
    assert "Not saved yet: some fields still need your choice." in page.text
    assert "Price choose 50.00 Keep 99.00: Price Use 45.00: Price" in page.text
    assert page.data["price"] == "45.00"
    assert values(book) == ("Book 1", 1, "99.00", 2)


def test_mine_can_be_chosen(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00")

    bob.submit(occ_choice_price="mine")

    assert values(book) == ("Book 1", 1, "45.00", 3)


def test_a_new_value_typed_into_the_field_is_a_choice_too(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00")

    bob.submit(price="72.00")

    assert values(book) == ("Book 1", 1, "72.00", 3)


def test_choosing_the_current_value_and_typing_a_new_one_is_asked_about_again(
    ann: Editor, bob: Editor, book: Book
) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00")

    page = bob.submit(price="72.00", occ_choice_price="theirs")

    assert page.status == 409
    assert page.data["price"] == "72.00"
    assert values(book) == ("Book 1", 1, "99.00", 2)


def test_a_third_writer_during_the_decision_is_noticed_too(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00", title="Book One")
    ann.open(book)
    ann.submit(price="120.00", stock="5")

    page = bob.submit(occ_choice_price="mine")

    assert page.status == 409
    assert "Price choose 50.00 Keep 120.00: Price Use 45.00: Price" in page.text
    assert values(book) == ("Book 1", 5, "120.00", 3)
    bob.submit(occ_choice_price="mine")
    assert values(book) == ("Book One", 5, "45.00", 4)


def test_the_same_value_on_both_sides_is_no_conflict(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")

    page = bob.submit(price="99.00", follow=True)

    assert "The book “Book 1” already has the values that you typed." in page.text
    assert "changed successfully" not in page.text
    assert values(book) == ("Book 1", 1, "99.00", 2)


def test_a_submit_that_changes_nothing_writes_nothing(ann: Editor, book: Book) -> None:
    ann.open(book)

    page = ann.submit(follow=True)

    assert "You changed nothing in the book “Book 1”, so nothing was saved." in page.text
    assert "changed successfully" not in page.text
    assert values(book) == ("Book 1", 1, "50.00", 1)
    assert LogEntry.objects.count() == 0


def test_what_widgets_cannot_show_is_not_taken_for_an_edit(ann: Editor, book: Book) -> None:
    Book.objects.filter(pk=book.pk).update(title=" blanks around ", notes="unix\nlines\n")
    ann.open(book)

    ann.submit()
    ann.open(book)
    ann.submit(stock="2")

    book.refresh_from_db()
    assert (book.title, book.notes, book.stock) == (" blanks around ", "unix\nlines\n", 2)


def test_an_untouched_stale_page_takes_nothing_back(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")

    page = bob.submit(follow=True)

    assert "You changed nothing" in page.text
    assert values(book) == ("Book 1", 1, "99.00", 2)


def test_many_to_many_and_relations_are_compared_as_well(ann: Editor, bob: Editor, book: Book) -> None:
    fiction, sale = Tag.objects.create(name="fiction"), Tag.objects.create(name="sale")
    other = Author.objects.create(name="Octavia")
    book.tags.set([sale])
    bob.open(book)
    ann.open(book)
    ann.submit(tags=[str(fiction.pk), str(sale.pk)], author=str(other.pk))

    page = bob.submit(tags=[], author="", details='{"shelf": 3}')

    assert page.status == 409
    assert "Author choose Ursula Keep Octavia: Author Use -: Author" in page.text
    assert "Tags choose sale Keep fiction, sale: Tags Use -: Tags" in page.text
    assert 'Details yours kept - - {"shelf": 3}' in page.text
    bob.submit(occ_choice_tags="theirs", occ_choice_author="mine")
    book.refresh_from_db()
    assert (set(book.tags.all()), book.author, book.details) == ({fiction, sale}, None, {"shelf": 3})


def test_edits_of_nothing_but_the_same_many_to_many_field_are_a_conflict(ann: Editor, bob: Editor, book: Book) -> None:
    fiction, sale = Tag.objects.create(name="fiction"), Tag.objects.create(name="sale")
    bob.open(book)
    ann.open(book)
    ann.submit(tags=[str(fiction.pk)])

    page = bob.submit(tags=[str(sale.pk)])

    assert page.status == 409
    assert list(book.tags.all()) == [fiction]
    assert page.data["tags"] == [str(sale.pk)]
    bob.submit(occ_choice_tags="mine")
    assert list(book.tags.all()) == [sale]


def test_related_rows_that_code_added_past_the_version_are_not_taken_away(ann: Editor, book: Book) -> None:
    fiction = Tag.objects.create(name="fiction")
    ann.open(book)
    book.tags.add(fiction)

    ann.submit(title="Book One")

    book.refresh_from_db()
    assert (book.title, list(book.tags.all())) == ("Book One", [fiction])


def test_what_was_typed_wrong_is_kept_beside_the_conflict(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")

    page = bob.submit(price="forty", title="")

    assert page.status == 409
    assert "Enter a number." in page.text
    assert "This field is required." in page.text
    assert "Price choose 50.00 Keep 99.00: Price Use forty: Price" in page.text
    assert page.data["price"] == "forty"


def test_an_ordinary_error_on_a_fresh_page_is_no_conflict(ann: Editor, bob: Editor, book: Book) -> None:
    ann.open(book)

    page = ann.submit(price="forty")

    assert page.status == 200
    assert "Not saved" not in page.text
    bob.open(book)
    bob.submit(stock="5")
    page = ann.submit(price="40")
    assert page.status == 409
    assert "Stock theirs kept 1 5" in page.text


def test_save_mine_as_new_keeps_both(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00", title="Book One")

    page = bob.submit("_saveasnew", follow=True)

    assert "was added successfully" in page.text
    assert sorted(Book.objects.values_list("title", "price")) == [("Book 1", 99), ("Book One", 45)]
    assert values(book) == ("Book 1", 1, "99.00", 2)


def test_overwrite_all_with_mine_puts_back_what_my_form_had(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00", stock="11")
    page = bob.submit(price="45.00")
    assert page.data["stock"] == "11"

    page = bob.submit("_occ_overwrite", follow=True)

    assert "was changed successfully" in page.text
    assert values(book) == ("Book 1", 1, "45.00", 3)
    assert [entry.get_change_message() for entry in LogEntry.objects.filter(user=bob.user).order_by("pk")] == [
        "Changed Stock and Price.",
        "Overwrote version 2 (opened: version 1) in: Stock and Price.",
    ]


def test_overwriting_does_not_pass_a_third_writer(ann: Editor, bob: Editor, book: Book) -> None:
    bob.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    bob.submit(price="45.00")
    ann.open(book)
    ann.submit(price="120.00")

    page = bob.submit("_occ_overwrite")

    assert page.status == 409
    assert values(book) == ("Book 1", 1, "120.00", 3)


def test_overwriting_takes_a_permission_of_its_own(ann: Editor, book: Book, db: None) -> None:
    eve = Editor("eve", permissions=("change_book", "view_book"))
    eve.open(book)
    ann.open(book)
    ann.submit(price="99.00")
    page = eve.submit(price="45.00")
    assert "_occ_overwrite" not in page.buttons
    assert "_saveasnew" not in page.buttons

    page = eve.submit("_occ_overwrite")

    assert page.status == 409
    assert values(book) == ("Book 1", 1, "99.00", 2)

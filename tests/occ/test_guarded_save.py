"""save(): refused when the row moved, one statement, memory and row in step."""

import copy
import pickle

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.models import F
from django.db.models.signals import pre_save

import occ
from occ.signals import conflict_detected
from tests.library.models import Author, Book, Cover, Documentary, Film, FilmProxy, Holding, Loan, Medium, Member, Shelf

pytestmark = pytest.mark.django_db


def row(book: Book) -> tuple[str, int, int]:
    return Book.objects.values_list("title", "stock", "version").get(pk=book.pk)


def test_a_save_moves_the_version_of_row_and_object_by_one():
    book = Book.objects.create(title="Emma", stock=1)

    book.stock = 2
    book.save()

    assert book.version == 2
    assert row(book) == ("Emma", 2, 2)


def test_a_save_is_one_update_and_nothing_else(django_assert_num_queries):
    book = Book.objects.create(title="Emma")

    with django_assert_num_queries(1) as queries:
        book.save()

    assert queries[0]["sql"].startswith("UPDATE")


def test_a_stale_save_is_refused_and_says_why():
    book = Book.objects.create(title="Emma", stock=1)
    stale = Book.objects.get(pk=book.pk)
    book.save()

    stale.stock = 9
    with pytest.raises(occ.Conflict) as caught:
        stale.save()

    conflict = caught.value
    assert row(book) == ("Emma", 1, 2)
    assert stale.version == 1
    assert (conflict.model, conflict.pk, conflict.expected, conflict.actual) == (Book, book.pk, 1, 2)
    assert (conflict.reason, conflict.operation, conflict.using) == ("changed", "save", "default")
    assert conflict.instance is stale
    assert str(conflict) == (
        f"save of library.Book {book.pk} refused: it was read at version 1, but the row is at version 2. Read it again "
        "and apply the change to the fresh copy (Model.objects.mutate does both)."
    )


def test_a_refused_save_is_refused_again():
    book = Book.objects.create(title="Emma")
    stale = Book.objects.get(pk=book.pk)
    book.save()

    for _ in range(3):
        with pytest.raises(occ.Conflict):
            stale.save()

    assert row(book) == ("Emma", 0, 2)


def test_update_fields_are_guarded_and_bump_though_they_do_not_name_the_version(django_assert_num_queries):
    book = Book.objects.create(title="Emma", stock=1)
    stale = Book.objects.get(pk=book.pk)

    book.stock = 2
    with django_assert_num_queries(1):
        book.save(update_fields=["stock"])

    assert row(book) == ("Emma", 2, 2)
    stale.title = "lost"
    with pytest.raises(occ.Conflict):
        stale.save(update_fields=["title"])
    assert row(book) == ("Emma", 2, 2)


def test_update_fields_may_name_the_version_too():
    book = Book.objects.create(title="Emma")

    book.save(update_fields=["title", "version"])

    assert (book.version, row(book)) == (2, ("Emma", 0, 2))


def test_a_save_after_the_row_was_deleted_is_refused_and_does_not_insert():
    book = Book.objects.create(title="Emma")
    Book.objects.all().delete()

    with pytest.raises(occ.Conflict) as caught:
        book.save()

    assert (caught.value.reason, caught.value.actual) == ("deleted", None)
    assert not Book.objects.exists()


def test_a_new_object_with_the_key_of_a_row_never_overwrites_it():
    book = Book.objects.create(title="Emma")

    with pytest.raises(IntegrityError), transaction.atomic():
        Book(pk=book.pk, title="Persuasion").save()

    assert row(book) == ("Emma", 0, 1)


def test_a_new_object_that_names_the_version_it_expects_updates_that_row_only():
    book = Book.objects.create(title="Emma")

    Book(pk=book.pk, title="Persuasion", version=1).save()

    assert row(book) == ("Persuasion", 0, 2)
    with pytest.raises(occ.Conflict):
        Book(pk=book.pk, title="lost", version=1).save()
    with pytest.raises(occ.Conflict):
        Book(pk=book.pk + 1000, title="lost", version=1).save()


def test_a_new_object_is_one_insert(django_assert_num_queries):
    with django_assert_num_queries(1):
        Shelf(code="a1").save()


def test_create_honours_a_version():
    assert Book.objects.create(title="Emma", version=5).version == 5
    assert Book.objects.get().version == 5


def test_a_version_may_start_from_the_clock_under_another_name():
    shelf = Shelf.objects.create(code="a1")
    first = shelf.revision

    shelf.delete()
    again = Shelf.objects.create(code="a1")

    assert 10**15 < first < again.revision < 2**53
    with pytest.raises(occ.Conflict):
        Shelf(code="a1", revision=first).save()


@pytest.mark.parametrize("wrong", [None, "1", -1, 1.0, True, F("version"), 2**63])
def test_a_version_of_the_wrong_kind_is_named_before_any_sql(wrong, django_assert_num_queries):
    book = Book.objects.create(title="Emma")

    book.version = wrong
    with django_assert_num_queries(0), pytest.raises(ValueError, match=r"version of library\.Book"):
        book.save()


def test_an_object_loaded_without_its_version_cannot_be_saved():
    Book.objects.create(title="Emma", stock=3)
    book = Book.objects.only("title").get()

    assert book.version == 1  # reading it is fine, but proves nothing about the rest
    with pytest.raises(occ.VersionNotLoaded, match=r"\.only\(\.\.\., 'version'\)"):
        book.save()
    with pytest.raises(occ.VersionNotLoaded):
        book.delete()


def test_a_partly_loaded_object_writes_what_it_loaded():
    Book.objects.create(title="Emma", stock=3)
    book = Book.objects.only("title", "version").get()
    Book.objects.get().save()

    book.title = "lost"
    with pytest.raises(occ.Conflict):
        book.save()

    book = Book.objects.only("title", "version").get()
    book.title = "Persuasion"
    book.save()
    assert row(book) == ("Persuasion", 3, 3)


def test_a_partial_refresh_leaves_the_version_alone():
    book = Book.objects.create(title="Emma")
    Book.objects.get().save()

    book.refresh_from_db(fields=["title"])
    assert book.version == 1

    book.refresh_from_db(fields=["version"])
    book.title = "overwritten on purpose"
    book.save()
    assert row(book) == ("overwritten on purpose", 0, 3)


def test_expressions_are_guarded_and_keep_djangos_behaviour():
    book = Book.objects.create(title="Emma", stock=5)
    stale = Book.objects.get()

    book.stock = F("stock") + 1
    book.save()
    assert row(book) == ("Emma", 6, 2)

    stale.stock = F("stock") + 1
    with pytest.raises(occ.Conflict):
        stale.save()
    assert row(book) == ("Emma", 6, 2)


def test_a_changed_primary_key_is_refused_and_says_how_to_copy():
    book = Book.objects.create(title="Emma")
    other = Book.objects.create(title="Persuasion")
    book = Book.objects.get(pk=book.pk)

    book.pk = other.pk
    with pytest.raises(occ.Conflict, match="To copy the object, set pk = None"):
        book.save()

    assert row(other) == ("Persuasion", 0, 1)


@pytest.mark.parametrize("adding", [True, False])
def test_a_copy_saved_as_new_starts_its_own_version(adding):
    book = Book.objects.create(title="Emma")
    book.save()

    book.pk = None
    book._state.adding = adding
    book.save()

    assert sorted(Book.objects.values_list("version", flat=True)) == [1, 2]
    assert book.version == 1
    book.save()
    assert book.version == 2


def test_a_pickled_or_copied_object_is_guarded_by_what_it_read():
    book = Book.objects.create(title="Emma")
    twins = [pickle.loads(pickle.dumps(book)), copy.copy(book), copy.deepcopy(book)]
    book.save()

    for twin in twins:
        with pytest.raises(occ.Conflict):
            twin.save()


def test_the_same_key_as_text_is_no_changed_key():
    book = Book.objects.create(title="Emma")
    book = Book.objects.get()

    book.pk = str(book.pk)
    book.save()
    Book.objects.bulk_update([book], ["title"])
    assert Book.objects.bulk_update([book], ["title"], on_conflict="skip") == []
    assert Book.objects.filter(title="Emma").bulk_update([book], ["title"], on_conflict="skip") == []

    assert row(book) == ("Emma", 0, 5)
    book.delete()
    assert not Book.objects.exists()


@pytest.mark.parametrize(
    ("operation", "write"),
    [
        ("save", lambda book: book.save()),
        ("delete", lambda book: book.delete()),
        ("bulk_update", lambda book: Book.objects.bulk_update([book], ["title"])),
        ("bulk_update", lambda book: Book.objects.bulk_update([book], ["title"], on_conflict="skip")),
    ],
)
def test_an_object_never_passes_for_another_row_of_the_same_version(operation, write):
    mine, other = Book.objects.create(title="Emma"), Book.objects.create(title="Persuasion")
    mine = Book.objects.get(pk=mine.pk)

    mine.pk, mine.title = other.pk, "Sanditon"
    with pytest.raises(occ.Conflict, match=f"^{operation} of .* its primary key was changed"):
        write(mine)

    assert sorted(Book.objects.values_list("title", "version")) == [("Emma", 1), ("Persuasion", 1)]


def test_a_conflict_leaves_the_transaction_usable():
    book = Book.objects.create(title="Emma")
    stale = Book.objects.get()
    book.save()

    with transaction.atomic():
        with pytest.raises(occ.Conflict):
            stale.save()
        assert Book.objects.count() == 1
        Author.objects.create(name="Jane")

    assert Author.objects.count() == 1


def test_a_conflict_does_not_heal_a_transaction_that_was_broken_before():
    book = Book.objects.create(title="Emma")
    stale = Book.objects.get()
    book.save()

    with transaction.atomic():
        connection.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            stale.save()
        assert connection.needs_rollback
        connection.set_rollback(False)


def test_a_conflict_is_told_to_receivers():
    told = []

    def receive(sender, conflict, **kwargs):
        told.append((sender, conflict.pk, conflict.expected))

    conflict_detected.connect(receive)
    book = Book.objects.create(title="Emma")
    stale = Book.objects.get()
    book.save()
    try:
        with pytest.raises(occ.Conflict):
            stale.save()
    finally:
        conflict_detected.disconnect(receive)

    assert told == [(Book, book.pk, 1)]


def test_saving_again_in_a_post_save_handler_is_no_conflict():
    def save_again(sender, instance, created, **kwargs):
        if instance.title == "Emma":
            instance.title = "Persuasion"
            instance.save()

    models.signals.post_save.connect(save_again, sender=Book)
    try:
        book = Book.objects.create(title="Emma")
        book.title = "Emma"
        book.save()
    finally:
        models.signals.post_save.disconnect(save_again, sender=Book)

    assert (book.version, row(book)) == (4, ("Persuasion", 0, 4))


def test_uuid_relation_and_composite_keys_are_guarded(django_assert_num_queries):
    book = Book.objects.create(title="Emma")
    objects = [Loan.objects.create(book=book), Cover.objects.create(book=book)]
    objects.append(Holding.objects.create(branch=1, number=2))

    for instance in objects:
        stale = type(instance).objects.get(pk=instance.pk)
        with django_assert_num_queries(1):
            instance.save()
        assert instance.version == 2
        with pytest.raises(occ.Conflict) as caught:
            stale.save()
        assert (caught.value.pk, caught.value.actual) == (instance.pk, 2)


def test_one_version_on_the_root_guards_all_tables_of_a_hierarchy():
    film = Documentary.objects.create(title="Blue", minutes=80, subject="colour")
    stale_root, stale_leaf = Medium.objects.get(), Documentary.objects.get()

    film.subject = "sea"
    film.save(update_fields=["subject"])
    assert Medium.objects.get().version == 2

    for stale in (stale_root, stale_leaf):
        stale.title = "lost"
        with pytest.raises(occ.Conflict):
            stale.save()
    assert Documentary.objects.values_list("title", "subject").get() == ("Blue", "sea")


def test_a_proxy_is_guarded_like_its_model():
    Film.objects.create(title="Blue")
    proxy, stale = FilmProxy.objects.get(), Film.objects.get()

    proxy.save()

    with pytest.raises(occ.Conflict):
        stale.save()


def test_a_row_that_the_default_manager_hides_is_guarded_all_the_same():
    member = Member.objects.create(name="Ann")
    stale = Member.objects.get()

    member.active = False
    member.save()

    with pytest.raises(occ.Conflict) as caught:
        stale.save()
    assert caught.value.reason == "changed"


def test_derived_columns_alone_neither_check_nor_bump():
    member = Member.objects.create(name="Ann")
    editor = Member.objects.get()

    member.loans = 3
    member.save(update_fields=["loans"])
    Member.objects.filter(pk=member.pk).update(loans=F("loans") + 1)
    editor.name = "Anna"
    editor.save()

    assert Member.objects.values_list("name", "loans", "version").get() == ("Anna", 4, 2)


def test_a_derived_column_is_written_by_an_object_that_has_loaded_no_more():
    Member.objects.create(name="Ann")
    member = Member.objects.only("loans").get()

    member.loans = 3
    member.save(update_fields=["loans"])
    assert Member.objects.values_list("loans", "version").get() == (3, 1)

    member.loans = 4
    member.save()
    assert Member.objects.values_list("loans", "version").get() == (4, 1)

    with pytest.raises(occ.VersionNotLoaded):
        member.save(update_fields=["loans", "name"])


def test_a_derived_column_stays_out_of_a_save_whose_signal_loads_a_deferred_field():
    member = Member.objects.create(name="Ann")
    editor = Member.objects.defer("active").get()
    Member.objects.filter(pk=member.pk).update(loans=5)

    def load(sender, instance, update_fields, **kwargs):
        assert instance.active
        told.append(update_fields)

    told = []
    editor.name = "Anna"
    pre_save.connect(load, sender=Member)
    try:
        editor.save()
    finally:
        pre_save.disconnect(load, sender=Member)

    assert told == [{"name", "version"}]
    assert Member.objects.values_list("name", "loans", "version").get() == ("Anna", 5, 2)


def test_update_or_create_of_derived_columns_alone_disturbs_nobody():
    Member.objects.create(name="Ann")
    editor = Member.objects.get()

    Member.objects.update_or_create(name="Ann", defaults={"loans": 3})
    editor.name = "Anne"
    editor.save()

    assert Member.objects.values_list("name", "loans", "version").get() == ("Anne", 3, 2)
    Member.objects.update_or_create(name="Anne", defaults={"loans": 4, "name": "Ann"})
    assert Member.objects.values_list("name", "loans", "version").get() == ("Ann", 4, 3)


def test_update_or_create_and_get_or_create_are_guarded():
    author, _ = Author.objects.get_or_create(name="Jane")
    author2, created = Author.objects.update_or_create(name="Jane", defaults={"name": "Jane A."})

    assert (created, author2.version) == (False, 2)
    with pytest.raises(occ.Conflict):
        author.save()


def test_every_queryset_update_bumps_and_none_takes_a_version_back():
    books = [Book.objects.create(title=str(number)) for number in range(3)]

    assert Book.objects.update(stock=1) == 3
    Book.objects.filter(pk=books[0].pk).update(version=1)
    Book.objects.filter(pk=books[1].pk).update(version=40)
    Book.objects.filter(pk=books[2].pk).update(version=F("version"))

    assert list(Book.objects.order_by("pk").values_list("version", flat=True)) == [3, 40, 3]


@pytest.mark.parametrize("wrong", [None, "first"])
def test_an_update_to_no_version_is_refused(wrong):
    Book.objects.create(title="Emma")

    with pytest.raises(ValueError, match="version"), transaction.atomic():
        Book.objects.update(version=wrong, title="Persuasion")

    assert Book.objects.values_list("title", "version").get() == ("Emma", 1)


def test_relations_that_write_rows_bump_them():
    jane = Author.objects.create(name="Jane")
    Book.objects.create(title="Emma", editor=jane)
    other = Book.objects.create(title="Persuasion")

    jane.edited.set([other])
    versions = dict(Book.objects.values_list("title", "version"))
    assert versions == {"Emma": 2, "Persuasion": 2}

    stale = Book.objects.get(pk=other.pk)
    jane.delete()
    assert Book.objects.values_list("editor", "version").get(pk=other.pk) == (None, 3)
    with pytest.raises(occ.Conflict):
        stale.save()


def test_an_update_of_a_hierarchy_bumps_the_root():
    film = Film.objects.create(title="Blue")

    Film.objects.update(minutes=5)

    assert Medium.objects.get().version == 2
    with pytest.raises(occ.Conflict):
        film.save()

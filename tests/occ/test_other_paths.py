"""The write paths beside save, delete and update: upserts, cascades that write, touch, fixtures, migrations."""

import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.core import serializers
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.migrations.state import ModelState, ProjectState
from django.db.migrations.writer import MigrationWriter
from django.test.utils import isolate_apps

import occ
from occ.models import OptimisticLockManager, OptimisticLockModel, OptimisticLockQuerySet
from tests.library.models import Book, Counter, Documentary, Medium, Member, Playlist, Poster, Shelf, Tag, Track

pytestmark = pytest.mark.django_db


def versions(model: type[models.Model]) -> list[int]:
    return list(model.objects.order_by("pk").values_list(model._occ_version_field.name, flat=True))


def test_bulk_create_starts_versions_in_memory_and_rows():
    books = Book.objects.bulk_create([Book(title="a"), Book(title="b", version=7)])
    (shelf,) = Shelf.objects.bulk_create([Shelf(code="x")])

    assert [book.version for book in books] == versions(Book) == [1, 7]
    assert shelf.revision == versions(Shelf)[0] > 10**15


def upsert(*names: str, **options: object) -> list[Playlist]:
    return Playlist.objects.bulk_create([Playlist(name=name) for name in names], **options)


def test_an_upsert_moves_the_versions_of_the_rows_that_it_updates():
    stale = Playlist.objects.create(name="old")
    target = {"unique_fields": ["name"]} if connection.vendor != "mysql" else {}

    upsert("old", "new", update_conflicts=True, update_fields=["name"], **target)
    upsert("old", update_conflicts=True, update_fields=["name", "version"], **target)

    assert dict(Playlist.objects.values_list("name", "version")) == {"old": 3, "new": 1}
    with pytest.raises(occ.Conflict):
        stale.save()


def test_ignored_conflicts_leave_versions_alone_and_the_objects_unsavable():
    old = Shelf.objects.create(code="old")
    mine = Shelf(code="old", label="lost")

    Shelf.objects.bulk_create([mine], ignore_conflicts=True)

    assert versions(Shelf) == [old.revision]
    with pytest.raises(occ.Conflict):
        mine.save()


def test_a_bulk_create_that_was_rolled_back_starts_again():
    counters = [Counter(), Counter()]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Counter.objects.bulk_create(counters)
        raise ZeroDivisionError

    assert [counter.version for counter in counters] == [0, 0]
    for counter in counters:
        counter.pk = None
        counter.save()
    assert versions(Counter) == [1, 1]


@pytest.mark.parametrize("field", ["nulled", "defaulted", "called"])
@pytest.mark.parametrize("how", ["instance", "queryset"])
def test_deletions_that_write_rows_move_their_versions(field, how):
    tag = Tag.objects.create(name="gone")
    poster = Poster.objects.create(**{field: tag})
    stale = Poster.objects.get()

    if how == "instance":
        tag.delete()
    else:
        Tag.objects.filter(pk=tag.pk).delete()

    poster.refresh_from_db()
    assert getattr(poster, field) == (Tag.objects.get() if field == "called" else None)
    assert poster.version == 2
    with pytest.raises(occ.Conflict):
        stale.save()


def test_set_order_works_and_moves_versions():
    playlist = Playlist.objects.create(name="p")
    tracks = [Track.objects.create(playlist=playlist) for _ in range(3)]

    playlist.set_track_order([tracks[2].pk, tracks[0].pk, tracks[1].pk])

    assert list(playlist.get_track_order()) == [tracks[2].pk, tracks[0].pk, tracks[1].pk]
    assert versions(Track) == [2, 2, 2]


def test_many_to_many_changes_do_not_move_the_version_and_touch_does():
    book = Book.objects.create(title="Emma")
    stale = Book.objects.get()

    book.tags.add(Tag.objects.create(name="t"))
    assert versions(Book) == [1]

    book.touch()
    assert (book.version, versions(Book)) == (2, [2])
    with pytest.raises(occ.Conflict):
        stale.touch()
    async_to_sync(book.atouch)()


@pytest.mark.parametrize(
    ("order", "moves"),
    [("touch", 1), ("touch touch", 1), ("save touch", 1), ("save touch touch", 1), ("touch save", 2)],
)
def test_touch_after_a_save_of_the_same_transaction_moves_nothing_more(order, moves):
    book = Book.objects.create(title="Emma")

    with transaction.atomic():
        for number, step in enumerate(order.split()):
            book.title = str(number)
            getattr(book, step)()

    assert book.version == versions(Book)[0] == 1 + moves
    book.save()
    assert versions(Book) == [2 + moves]


def test_a_save_after_a_touch_refuses_who_read_in_between():
    book = Book.objects.create(title="Emma")

    with transaction.atomic():
        book.touch()
        reader = Book.objects.get()
        book.stock = 5
        book.save()
        reader.notes = "lost"
        with pytest.raises(occ.Conflict):
            reader.save()

    assert Book.objects.values_list("stock", "notes").get() == (5, "")


def test_a_function_that_is_one_transaction_each_time_counts_each_time():
    book = Book.objects.create(title="Emma")

    @transaction.atomic
    def touch_or_save(touch):
        book.touch() if touch else book.save()

    touch_or_save(True)
    reader = Book.objects.get()
    touch_or_save(False)

    with pytest.raises(occ.Conflict):
        reader.save()


def test_a_stale_touch_is_refused_though_this_transaction_moved_the_version_itself():
    book = Book.objects.create(title="Emma")

    with transaction.atomic():
        book.save()
        Book.objects.get().save()
        with pytest.raises(occ.Conflict) as caught:
            book.touch()

    assert (caught.value.operation, caught.value.expected, caught.value.actual) == ("touch", 2, 3)


def test_touches_in_two_transactions_count_twice():
    book = Book.objects.create(title="Emma")

    for _ in range(2):
        with transaction.atomic():
            book.touch()
    book.touch()

    assert versions(Book) == [4]


def test_a_touch_that_was_rolled_back_does_not_count():
    book = Book.objects.create(title="Emma")

    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            book.touch()
            raise ZeroDivisionError
        book.touch()

    assert (book.version, versions(Book)) == (2, [2])


def test_a_key_changed_after_bulk_create_is_refused():
    first, second = Book.objects.bulk_create([Book(title="a"), Book(title="b")])
    if first.pk is None:
        pytest.skip("the database returns no keys of a bulk insert")

    first.pk = second.pk
    with pytest.raises(occ.Conflict, match="primary key was changed"):
        first.save()


def test_fixtures_are_stored_verbatim_and_without_a_version_at_one(tmp_path):
    Book.objects.create(title="Emma", version=7)
    dumped = json.loads(serializers.serialize("json", Book.objects.all()))
    assert dumped[0]["fields"]["version"] == 7
    (other := json.loads(json.dumps(dumped[0])))["pk"] += 1
    del other["fields"]["version"]
    fixture = tmp_path / "books.json"
    fixture.write_text(json.dumps([*dumped, other]))

    Book.objects.all().update(title="changed")
    call_command("loaddata", str(fixture), verbosity=0)

    assert versions(Book) == [7, 1]
    assert set(Book.objects.values_list("title", flat=True)) == {"Emma"}


def test_an_object_that_was_saved_raw_can_be_saved_again():
    counter = Counter(value=1)

    counter.save_base(raw=True, force_insert=True)
    counter.save()

    assert (counter.version, versions(Counter)) == (2, [2])


def test_dumped_hierarchies_load_again():
    Documentary.objects.create(title="Blue", subject="sea")
    out = io.StringIO()
    call_command("dumpdata", "library", stdout=out)
    Documentary.objects.all().delete()

    for deserialized in serializers.deserialize("json", out.getvalue()):
        deserialized.save()

    assert Documentary.objects.values_list("title", "subject", "version").get() == ("Blue", "sea", 1)
    assert versions(Medium) == [1]


def test_the_historical_models_of_migrations_move_versions():
    Counter.objects.create()
    state = ProjectState()
    state.add_model(ModelState.from_model(Counter))
    historical = state.apps.get_model("library", "Counter")

    instance = historical.objects.get()
    instance.value = 5
    instance.save()
    historical.objects.update(value=6)
    created = historical.objects.create(value=1)

    assert (instance.version, created.version) == (2, 1)
    assert versions(Counter) == [3, 1]


@pytest.mark.parametrize("model", [Counter, Member], ids=["ours", "filtered"])
def test_migrations_do_not_mention_the_base_manager(model):
    written = ModelState.from_model(model)

    managers = {name: type(manager) for name, manager in written.managers}
    assert managers == ({"objects": OptimisticLockManager} if model is Counter else {})
    assert "base_manager_name" not in written.options


def test_a_base_manager_that_meta_names_is_kept():
    with isolate_apps("tests.library"):

        class Named(OptimisticLockModel):
            chosen = OptimisticLockManager()

            class Meta:
                app_label = "library"
                base_manager_name = "chosen"

    assert Named._base_manager is Named._meta.managers_map["chosen"]
    assert Named.check() == []


def test_objects_of_a_filtered_manager_can_be_touched_and_deleted():
    member = Member.objects.create(name="Ann", active=False)

    member.touch()
    member.delete()

    assert not Member._base_manager.exists()


class Numbers(OptimisticLockQuerySet[Counter]):
    def odd(self) -> "Numbers":
        return self.filter(value__in=[1, 3, 5])


class NumberManager(OptimisticLockManager[Counter]):
    pass


class MigratedManager(OptimisticLockManager[Counter]):
    use_in_migrations = True


@pytest.mark.parametrize(
    ("manager", "in_migrations"),
    [
        (OptimisticLockManager(), True),
        (OptimisticLockManager.from_queryset(Numbers)(), False),
        (Numbers.as_manager(), False),
        (NumberManager(), False),
        (MigratedManager(), True),
    ],
    ids=["ours", "from_queryset", "as_manager", "subclass", "subclass for migrations"],
)
def test_migrations_get_over_any_manager_and_their_models_move_versions(manager, in_migrations):
    with isolate_apps("tests.library"):

        class Numbered(OptimisticLockModel):
            value = models.IntegerField(default=0)

            objects = manager

            class Meta:
                app_label = "library"
                db_table = Counter._meta.db_table

        written = ModelState.from_model(Numbered)
        checked = Numbered.check()
    Counter.objects.create()
    state = ProjectState()
    state.add_model(written)
    MigrationWriter.serialize([(name, manager) for name, manager in written.managers])
    historical = state.apps.get_model("library", "Numbered")

    historical.objects.update(value=6)
    historical._base_manager.update(value=7)

    assert checked == []
    assert [name for name, _ in written.managers] == (["objects"] if in_migrations else [])
    assert versions(Counter) == [3]

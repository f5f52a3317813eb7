"""delete(): refused when the row moved, cascades included, with Django's signals and statements."""

import pytest
from django.db import transaction
from django.db.models import signals

import occ
from tests.library.models import (
    Author,
    Book,
    Category,
    Chapter,
    Counter,
    Documentary,
    Holding,
    Medium,
    PlainCounter,
    Player,
    Team,
)

pytestmark = pytest.mark.django_db


def test_a_current_object_is_deleted_in_one_statement_like_djangos(django_assert_num_queries):
    plain, counter = PlainCounter.objects.create(), Counter.objects.create()

    with django_assert_num_queries(1):
        assert plain.delete() == (1, {"library.PlainCounter": 1})
    with django_assert_num_queries(1):
        assert counter.delete() == (1, {"library.Counter": 1})

    assert counter.pk is None
    assert not Counter.objects.exists()


def test_a_stale_delete_is_refused_and_keeps_the_key():
    counter = Counter.objects.create()
    stale = Counter.objects.get()
    counter.save()

    with pytest.raises(occ.Conflict) as caught:
        stale.delete()

    assert (caught.value.operation, caught.value.expected, caught.value.actual) == ("delete", 1, 2)
    assert stale.pk == counter.pk
    assert Counter.objects.count() == 1  # and the transaction is usable


def test_a_deleted_row_is_told_apart_from_a_changed_one():
    counter = Counter.objects.create()
    other = Counter.objects.get()
    counter.delete()

    with pytest.raises(occ.Conflict) as caught:
        other.delete()

    assert (caught.value.reason, caught.value.actual) == ("deleted", None)


def test_a_stale_delete_undoes_its_cascade():
    book = Book.objects.create(title="Emma")
    Chapter.objects.create(book=book, title="1")
    stale = Book.objects.get()
    book.save()

    with pytest.raises(occ.Conflict), transaction.atomic():
        stale.delete()

    assert (Book.objects.count(), Chapter.objects.count()) == (1, 1)


def test_a_cascade_deletes_what_django_would_and_sends_the_signals():
    jane = Author.objects.create(name="Jane")
    book = Book.objects.create(title="Emma", author=jane)
    Chapter.objects.create(book=book, title="1")
    told = []

    def receive(sender, instance, signal, **kwargs):
        told.append((("pre", "post")[signal is signals.post_delete], sender.__name__))

    for signal in (signals.pre_delete, signals.post_delete):
        signal.connect(receive)
    try:
        deleted = Author.objects.get().delete()
    finally:
        for signal in (signals.pre_delete, signals.post_delete):
            signal.disconnect(receive)

    assert deleted == (3, {"library.Author": 1, "library.Book": 1, "library.Chapter": 1})
    assert told == [
        ("pre", "Chapter"),
        ("pre", "Book"),
        ("pre", "Author"),
        ("post", "Chapter"),
        ("post", "Book"),
        ("post", "Author"),
    ]


def test_a_tree_is_deleted_from_its_root():
    root = Category.objects.create(name="root")
    child = Category.objects.create(name="child", parent=root)
    Category.objects.create(name="leaf", parent=child)

    assert root.delete() == (3, {"library.Category": 3})
    assert not Category.objects.exists()


def test_a_hierarchy_is_deleted_whole_or_not_at_all():
    film = Documentary.objects.create(title="Blue", subject="sea")
    stale = Documentary.objects.get()
    film.save()

    with pytest.raises(occ.Conflict), transaction.atomic():
        stale.delete()
    assert (stale.pk, Documentary.objects.count()) == (film.pk, 1)

    assert film.delete()[0] == 3
    assert not Medium.objects.exists()


def test_keeping_the_parents_still_checks_and_moves_their_version():
    Documentary.objects.create(title="Blue", subject="sea")
    film, stale = Documentary.objects.get(), Documentary.objects.get()

    film.delete(keep_parents=True)

    assert (Medium.objects.get().version, Documentary.objects.count()) == (2, 0)
    with pytest.raises(occ.Conflict), transaction.atomic():
        stale.delete(keep_parents=True)


def test_a_composite_key_is_guarded():
    holding = Holding.objects.create(branch=1, number=2)
    stale = Holding.objects.get()
    holding.save()

    with pytest.raises(occ.Conflict):
        stale.delete()

    assert holding.delete() == (1, {"library.Holding": 1})


def team_with_captain() -> Team:
    team = Team.objects.create()
    team.captain = team.players.create()
    team.save()
    return team


def test_a_row_that_refers_to_what_is_deleted_with_it_can_be_deleted():
    team, rival = team_with_captain(), Team.objects.create()
    rival.rival = team
    rival.save()

    deleted = team.delete()

    assert deleted == (2, {"library.Team": 1, "library.Player": 1})
    assert list(Team.objects.values_list("pk", "rival", "version")) == [(rival.pk, None, 3)]


def test_a_row_that_refers_to_what_is_deleted_with_it_is_guarded_all_the_same():
    team = team_with_captain()
    Team.objects.filter(pk=team.pk).update(captain=None)

    with pytest.raises(occ.Conflict), transaction.atomic():
        team.delete()

    assert Player.objects.count() == 1


def test_a_row_that_refers_to_itself_can_be_deleted():
    team = Team.objects.create()
    team.rival = team
    team.save()

    team.delete()

    assert not Team.objects.exists()

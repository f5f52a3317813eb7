"""The ways to write a row, as tables: how each reads, how it writes, and what the row must then look like.

Two tables: the paths of an ordinary model (``BOOK``) and those of a multi-table hierarchy (``FILM``), where some write
the child's table, some the root's, some both. All of one table work on one row, so each can race each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection, models
from django.db.models import F

import occ
from tests.library.models import Author, Book, Film, Medium


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a row must look like: its number, its version, whether it still refers to its editor."""

    number: int
    version: int
    edited: bool = False


def add_one(row: Row | None) -> Row | None:
    return row and replace(row, number=row.number + 1, version=row.version + 1)


def add_first(row: Row | None) -> Row | None:
    return add_one(row) if row and row.number == 0 else row


def bump(row: Row | None) -> Row | None:
    return row and replace(row, version=row.version + 1)


def bump_or_insert(row: Row | None) -> Row | None:
    return bump(row) or Row(number=0, version=1)


def remove(row: Row | None) -> Row | None:
    return None


def lose_editor(row: Row | None) -> Row | None:
    return replace(row, version=row.version + 1, edited=False) if row and row.edited else row


@dataclass(frozen=True, kw_only=True)
class Path:
    """One way to write.

    Attributes:
        read: takes the row's key and returns what is carried to the write.
        write: writes what ``read`` returned.
        effect: what a write that went through makes of the row.
        carries_version: it writes what was read earlier, so it must be refused when the row moved meanwhile.
        retries: it reads again by itself until it went through.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], object]
    effect: Callable[[Row | None], Row | None] = add_one
    carries_version: bool = True
    retries: bool = False

    @property
    def adds(self) -> bool:
        """Whether it adds to the number."""
        return self.effect in (add_one, add_first)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The paths to the rows of one model."""

    create: Callable[[], Any]
    look: Callable[[Any], Row | None]
    number: Callable[[Any], int]
    paths: dict[str, Path]


def _key(pk: Any) -> Any:
    return pk


def _adding(column: str, **save: Any) -> Callable[[Any], None]:
    def write(instance: models.Model) -> None:
        setattr(instance, column, getattr(instance, column) + 1)
        instance.save(**save)

    return write


def _adding_in_sql(column: str) -> Callable[[Any], None]:
    def write(instance: models.Model) -> None:
        setattr(instance, column, F(column) + 1)
        instance.save(update_fields=[column])

    return write


def _adding_in_bulk(column: str) -> Callable[[Any], None]:
    def write(instance: models.Model) -> None:
        setattr(instance, column, getattr(instance, column) + 1)
        type(instance)._default_manager.bulk_update([instance], [column])

    return write


def _mutating(model: type[Book] | type[Film], column: str) -> Callable[[Any], None]:
    def write(pk: Any) -> None:
        model.objects.mutate(pk, lambda fresh: setattr(fresh, column, getattr(fresh, column) + 1))

    return write


def _retrying(model: type[Book] | type[Film], column: str) -> Callable[[Any], None]:
    @occ.retry_on_conflict
    def write(pk: Any) -> None:
        _adding(column)(model.objects.get(pk=pk))

    return write


def _common(model: type[Book] | type[Film], column: str) -> dict[str, Path]:
    """Return the paths that every model has."""
    read = model.objects.get

    def get(pk: Any) -> Any:
        return read(pk=pk)

    def update_or_create(pk: Any) -> None:
        model.objects.update_or_create(pk=pk, defaults={"title": "known"})

    return {
        "save": Path(read=get, write=_adding(column)),
        "save of some fields": Path(read=get, write=_adding(column, update_fields=[column])),
        "save of an expression": Path(read=get, write=_adding_in_sql(column)),
        "bulk_update": Path(read=get, write=_adding_in_bulk(column)),
        "touch": Path(read=get, write=lambda instance: instance.touch(), effect=bump),
        "delete": Path(read=get, write=lambda instance: instance.delete(), effect=remove),
        "update": Path(
            read=_key,
            write=lambda pk: model.objects.filter(pk=pk).update(**{column: F(column) + 1}),
            carries_version=False,
        ),
        "update on a condition": Path(
            read=_key,
            write=lambda pk: model.objects.filter(pk=pk, **{column: 0}).update(**{column: F(column) + 1}),
            effect=add_first,
            carries_version=False,
        ),
        "mutate": Path(read=_key, write=_mutating(model, column), carries_version=False, retries=True),
        "retry_on_conflict": Path(read=_key, write=_retrying(model, column), carries_version=False, retries=True),
        "update_or_create": Path(read=_key, write=update_or_create, effect=bump_or_insert, carries_version=False),
    }


def _upsert(pk: Any) -> None:
    Book.objects.bulk_create(
        [Book(pk=pk, title="imported")], update_conflicts=True, update_fields=["title"], unique_fields=unique_fields()
    )


def unique_fields() -> list[str] | None:
    """Return what names the key of an upsert, which MySQL and MariaDB will not be told."""
    return ["pk"] if connection.features.supports_update_conflicts_with_target else None


def _editor(pk: Any) -> Any:
    return Book.objects.values_list("editor_id", flat=True).get(pk=pk)


def _create_book() -> Any:
    return Book.objects.create(title="new", editor=Author.objects.create(name="editor")).pk


def _look_at_book(pk: Any) -> Row | None:
    found = Book.objects.filter(pk=pk).values_list("stock", "version", "editor_id").first()
    return found and Row(number=found[0], version=found[1], edited=found[2] is not None)


def _look_at_film(pk: Any) -> Row | None:
    found = Film.objects.filter(pk=pk).values_list("minutes", "version").first()
    return found and Row(number=found[0], version=found[1])


BOOK = Table(
    create=_create_book,
    look=_look_at_book,
    number=lambda book: int(book.stock),
    paths={
        **_common(Book, "stock"),
        "upsert": Path(read=_key, write=_upsert, effect=bump_or_insert, carries_version=False),
        "SET_NULL": Path(
            read=_editor,
            write=lambda author: Author.objects.filter(pk=author).delete(),
            effect=lose_editor,
            carries_version=False,
        ),
        "clear of a reverse relation": Path(
            read=_editor,
            write=lambda author: Author(pk=author).edited.clear(),
            effect=lose_editor,
            carries_version=False,
        ),
    },
)

FILM = Table(
    create=lambda: Film.objects.create(title="new").pk,
    look=_look_at_film,
    number=lambda film: int(film.minutes),
    paths={
        **_common(Film, "minutes"),
        "save of the root's fields": Path(
            read=lambda pk: Film.objects.get(pk=pk),
            write=lambda film: film.save(update_fields=["title"]),
            effect=bump,
        ),
        "save of the root's object": Path(
            read=lambda pk: Medium.objects.get(pk=pk), write=lambda medium: medium.save(), effect=bump
        ),
        "update of both tables": Path(
            read=_key,
            write=lambda pk: Film.objects.filter(pk=pk).update(title="both", minutes=F("minutes") + 1),
            carries_version=False,
        ),
        "update of the root": Path(
            read=_key,
            write=lambda pk: Medium.objects.filter(pk=pk).update(title="root"),
            effect=bump,
            carries_version=False,
        ),
    },
)

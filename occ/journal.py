"""Versions in memory that follow the transaction: a rollback takes back what it undid.

A save moves the version of the object when its UPDATE has matched, which is before the transaction ends. When that
transaction, or the savepoint around the save, is rolled back, the row is at its old version again and so must be the
object: else its next save is refused for no reason, or worse, is let through when a rival has reached the same number.

Each connection keeps a journal of the objects written in its open transaction, as weak references, and rewinds it
when it rolls back, wholly or to a savepoint, made by ``atomic`` or by hand. An object that is *read* after such a
write is given a ``Reading``, which all objects have in common that are read between two writes: after a rollback it
tells whether the object shows a write that was undone.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from occ.keys import comparable, forget_row

_ATTRIBUTE = "_occ_journal"

# The journals that have entries, by thread and alias. Empty, as most of the time, it costs a read nothing.
open_journals: dict[tuple[int, str], weakref.ref[Journal]] = {}


class Past(Protocol):
    """What an object was besides its version."""

    def restore(self, instance: models.Model) -> None: ...


# The object, the model of the table with its version, its key there, the version and flag before the write, and more.
_Entry = tuple[Callable[[], models.Model | None], type[models.Model], Any, int, bool, Past | None]


class Reading:
    """The moment of the open transaction at which objects were read, and which writes before it were undone since."""

    __slots__ = ("__weakref__", "older", "undone")

    def __init__(self, older: int) -> None:
        self.older = older  # how many entries of the journal were there
        # For each rollback: the rows that it undid writes of, with the place of the first one; and ``older`` till then.
        self.undone: list[tuple[Mapping[tuple[Any, Any], int], int]] = []

    def shows_undone(self, model: type[models.Model], pk: Any) -> bool:
        """Tell whether a write of this row that was older than the reading has been undone."""
        rows = (model, comparable(model, pk)), (model, None)
        return any(writes.get(row, older) < older for writes, older in self.undone for row in rows)

    def __deepcopy__(self, memo: object) -> Reading:
        return self


class Journal:
    """What the open transaction of one connection changed in memory, oldest first."""

    __slots__ = ("__weakref__", "_newest", "_readings", "entries", "key", "marks")

    def __init__(self, using: str) -> None:
        self.key = threading.get_ident(), using
        self.entries: list[_Entry] = []
        self.marks: dict[str, int] = {}  # savepoint id -> how many entries are older
        self._readings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._newest: Reading | None = None

    def begin(self) -> None:
        """Be found by reads from now on."""
        open_journals[self.key] = weakref.ref(self, functools.partial(_unlist, self.key))

    def reading(self) -> Reading:
        """Return the reading of what is read now."""
        if self._newest is None or self._newest.older != len(self.entries):
            self._newest = self._reading_at(len(self.entries))
        return self._newest

    def _reading_at(self, older: int) -> Reading:
        reading = Reading(older)
        self._readings.add(reading)
        return reading

    def rewind(self, mark: int = 0) -> None:
        """Take back every change younger than the first ``mark`` entries, newest first."""
        for place in range(len(self.entries) - 1, mark - 1, -1):
            reference, model, _, version, adding, past = self.entries[place]
            instance = reference()
            if instance is None:
                continue
            instance.__dict__[model._occ_version_field.attname] = version  # type: ignore[attr-defined]
            state = instance._state
            state.adding = adding
            state.__dict__.pop("occ_snapshot", None)
            if adding:
                forget_row(instance)
            elif past is not None:
                past.restore(instance)
            reading: Reading | None = state.__dict__.get("occ_reading")
            if reading is not None and reading.older > place:  # read again later: it has its older version back
                state.occ_reading = self._reading_at(place)  # type: ignore[attr-defined]
        self._undo_readings(mark)
        del self.entries[mark:]

    def _undo_readings(self, mark: int) -> None:
        self._newest = None
        younger = [reading for reading in self._readings if reading.older > mark]
        if younger:
            writes: dict[tuple[Any, Any], int] = {}
            for place, (_, model, pk, *_rest) in enumerate(self.entries[mark:], mark):
                writes.setdefault((model, comparable(model, pk)), place)
            for reading in younger:
                reading.undone.append((writes, reading.older))
                reading.older = mark

    def forget(self) -> None:
        self.entries.clear()
        self.marks.clear()
        self._readings.clear()
        self._newest = None
        listed = open_journals.get(self.key)
        if listed is not None and listed() is self:
            del open_journals[self.key]


def record(
    connection: BaseDatabaseWrapper,
    instance: models.Model,
    model: type[models.Model],
    pk: Any,
    version: int,
    adding: bool = False,
    past: Past | None = None,
) -> None:
    """Remember that ``instance`` is about to leave ``version`` in the open transaction of ``connection``.

    The version is in the row ``pk`` of ``model``. ``past`` knows what else to take back on the object.
    """
    journal: Journal = connection.__dict__.get(_ATTRIBUTE) or _install(connection)
    if not journal.entries:
        journal.begin()
    instance._state.__dict__["occ_entry"] = len(journal.entries)
    journal.entries.append((weakref.ref(instance), model, pk, version, adding, past))


def record_rows(connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
    """Remember that some rows of ``model`` moved, which objects read from now on show."""
    if connection.in_atomic_block or not connection.autocommit:
        journal: Journal = connection.__dict__.get(_ATTRIBUTE) or _install(connection)
        if not journal.entries:
            journal.begin()
        journal.entries.append(_some_rows(model))


@functools.cache
def _some_rows(model: type[models.Model]) -> _Entry:
    return (lambda: None), model, None, 0, False, None


def follow_reading(instance: models.Model, using: str | None) -> None:
    """Note on ``instance``, which was just read, the moment of the open transaction. Call it if ``open_journals``."""
    listed = open_journals.get((threading.get_ident(), using or ""))
    journal = None if listed is None else listed()
    if journal is not None and journal.entries:
        instance._state.occ_reading = journal.reading()  # type: ignore[attr-defined]


def _unlist(key: tuple[int, str], reference: weakref.ref[Journal]) -> None:
    """Strike out the journal of a connection that went without being closed."""
    if open_journals.get(key) is reference:
        del open_journals[key]


def is_moved(connection: BaseDatabaseWrapper, instance: models.Model) -> bool:
    """Tell whether the open transaction has moved the version of ``instance``."""
    journal: Journal | None = connection.__dict__.get(_ATTRIBUTE)
    block, savepoint = _transaction(connection)
    if journal is None or block is None:
        return False
    # The object's newest entry, unless that was taken back or belongs to the object that this one was copied from.
    entry = instance._state.__dict__.get("occ_entry", -1)
    begun = journal.marks.get(savepoint or "", 0)
    return begun <= entry < len(journal.entries) and journal.entries[entry][0]() is instance


def _transaction(connection: BaseDatabaseWrapper) -> tuple[transaction.Atomic | None, str | None]:
    """Return the block that is the open transaction, and its savepoint where it lies inside a test's own block.

    What Django's ``TestCase`` opens around a test is none: code under test must behave as it would by itself.
    """
    for depth, block in enumerate(connection.atomic_blocks):
        if not block._from_testcase:  # type: ignore[attr-defined]
            return block, connection.savepoint_ids[depth - 1] if depth else None
    return None, None


def _install(connection: BaseDatabaseWrapper) -> Journal:
    """Have ``connection`` tell its journal of savepoints, rollbacks and commits, from now on."""
    journal = Journal(connection.alias)
    setattr(connection, _ATTRIBUTE, journal)

    def savepoint_made(sid: str | None, *_: Any) -> None:
        if sid:
            journal.marks[sid] = len(journal.entries)

    def savepoint_rolled_back(_: None, sid: str) -> None:
        journal.rewind(journal.marks.get(sid, 0))

    def rolled_back(*_: Any) -> None:
        journal.rewind()
        journal.forget()

    def committed(*_: Any) -> None:
        journal.forget()

    _after(connection, "savepoint", savepoint_made)
    _after(connection, "savepoint_rollback", savepoint_rolled_back)
    _after(connection, "rollback", rolled_back)
    _after(connection, "commit", committed)
    _after(connection, "close", rolled_back)  # an open transaction ends with its connection; else there is no entry
    return journal


def _after(connection: BaseDatabaseWrapper, name: str, told: Callable[..., None]) -> None:
    # Neither the connection nor a bound method of it may be held here: the cycle would keep it open.
    method = getattr(type(connection), name)
    reference = weakref.ref(connection)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = method(reference(), *args, **kwargs)
        told(result, *args, **kwargs)
        return result

    setattr(connection, name, wrapped)

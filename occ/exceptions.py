"""What occ raises: one sentence and a remedy each, with the facts as attributes.

Knows nothing of the rest of the package; every other module may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, DatabaseError

if TYPE_CHECKING:
    from django.db.models import Model

    class ObjectNotUpdated(Exception):
        """Stands for Django 6's class of that name while types are checked."""

else:
    try:
        from django.core.exceptions import ObjectNotUpdated
    except ImportError:  # Django 5.2

        class ObjectNotUpdated(Exception):
            """Stands in for the class that Django has from 6.0 on."""


Reason = Literal["changed", "deleted"]


class Conflict(ObjectNotUpdated, DatabaseError):
    """A write was refused because its row is no longer at the version that was read.

    Nothing was written. Read the row again, decide again, write again: ``Model.objects.mutate`` and
    ``occ.retry_on_conflict`` do that; ``occ.diffs`` tells what changed on both sides. Like Django's own "forced update
    did not affect any rows" it is a ``DatabaseError``, and on Django 6 an ``ObjectNotUpdated`` that ``except
    Book.NotUpdated`` catches when it is about a book. It is never raised for a unique-key clash.

    Attributes:
        model: the model class that was written.
        pk: the primary key of the row.
        expected: the version that the writer had read.
        actual: the version the row has now, or None when it is gone.
        reason: ``"changed"`` or ``"deleted"``.
        operation: what was refused: ``"save"``, ``"delete"``, ``"bulk_update"``, ...
        using: the alias of the database that refused.
        instance: the stale object, or None (it is left out when the exception is pickled).
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        model: type[Model],
        pk: Any,
        expected: int | None,
        actual: int | None,
        reason: Reason | None = None,
        operation: str = "save",
        using: str = DEFAULT_DB_ALIAS,
        instance: Model | None = None,
    ) -> None:
        self.model = model
        self.pk = pk
        self.expected = expected
        self.actual = actual
        self.reason: Reason = reason or ("deleted" if actual is None else "changed")
        self.operation = operation
        self.using = using
        self.instance = instance
        # True when the refused statement was the first write of its operation and the transaction around it was
        # sound: then the block stays usable (see OptimisticLockModel.save_base).
        self.leaves_transaction_usable = False
        # False when the same work would be refused again, whatever the row says.
        self.may_be_retried = True
        super().__init__(message or self._describe())
        self.__class__ = _caught_as_not_updated(type(self), model)

    def _describe(self) -> str:
        found = "the row is gone" if self.actual is None else f"the row is at version {self.actual}"
        read = f"read at version {self.expected}" if self.expected else "never read"
        remedy = (
            "There is nothing left to read: decide whether to create it anew."
            if self.actual is None
            else "Read it again and apply the change to the fresh copy (Model.objects.mutate does both)."
        )
        return f"{self.operation} of {self.model._meta.label} {self.pk!r} refused: it was {read}, but {found}. {remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_conflict, (_general(type(self)), str(self), self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "pk": self.pk,
            "expected": self.expected,
            "actual": self.actual,
            "reason": self.reason,
            "operation": self.operation,
            "using": self.using,
        }


class BulkConflict(Conflict):
    """Some rows of a bulk write were stale; by default none of them was written.

    Attributes:
        conflicts: one ``Conflict`` per stale row, in the order of the objects given. The attributes that it
            inherits are those of the first.
    """

    def __init__(self, message: str | None = None, *, conflicts: Sequence[Conflict], **facts: Any) -> None:
        if not conflicts:
            raise ValueError("conflicts must name at least one stale row.")
        self.conflicts = tuple(conflicts)
        first = conflicts[0]
        super().__init__(message, **{**first._facts(), "instance": first.instance, **facts})

    def _describe(self) -> str:
        rows = ", ".join(
            f"{c.pk!r} (read at {c.expected}, {'gone' if c.actual is None else f'now {c.actual}'})"
            for c in self.conflicts[:10]
        )
        more = len(self.conflicts) - 10
        return (
            f"{self.operation} of {self.model._meta.label} refused, nothing was written: "
            f"{len(self.conflicts)} stale: {rows}{f' and {more} more' if more > 0 else ''}. "
            'Read these rows again and repeat, or pass on_conflict="skip" to write the others.'
        )

    def _facts(self) -> dict[str, Any]:
        return {"conflicts": self.conflicts}


class Contested(NamedTuple):
    """A field that somebody else owns.

    Attributes:
        field: its name.
        manager: who owns it.
        value: what it is now.
    """

    field: str
    manager: str
    value: Any


class FieldConflict(Exception):
    """An apply was refused because it would change fields that others own. Nothing was written.

    No ``Conflict``: reading again and repeating does not help. Leave the fields out, or ask for the values that they
    have and share them, or take them with ``force=True``.

    Attributes:
        model: the model class.
        pk: the primary key of the row.
        manager: who wanted to write.
        conflicts: every (field, manager, value) in the way, a ``Contested`` each, in the order of the fields given.
        using: the alias of the database.
    """

    def __init__(
        self,
        *,
        model: type[Model],
        pk: Any,
        manager: str,
        conflicts: Sequence[Contested],
        using: str = DEFAULT_DB_ALIAS,
    ) -> None:
        self.model = model
        self.pk = pk
        self.manager = manager
        self.conflicts = tuple(Contested(*each) for each in conflicts)
        self.using = using
        super().__init__(self._describe())

    def _describe(self) -> str:
        fields = {each.field: each.value for each in self.conflicts}
        owned = [f"{name} ({value!r:.100}) is owned by {self._owners(name)}" for name, value in fields.items()]
        return (
            f"apply of {self.model._meta.label} {self.pk!r} by {self.manager!r} refused, nothing was written: "
            f"{'; '.join(owned)}. "
            "Leave out what is not yours, ask for the current values to share them, or take the fields with force=True."
        )

    def _owners(self, name: str) -> str:
        owners = [each.manager for each in self.conflicts if each.field == name]
        # The same name by a plain save is another manager; that is the only way to be in one's own way.
        return ", ".join(repr(each) + (" by a plain save" if each == self.manager else "") for each in owners)

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {
            "model": self.model,
            "pk": self.pk,
            "manager": self.manager,
            "conflicts": self.conflicts,
            "using": self.using,
        }
        return _rebuild_field_conflict, (type(self), facts)


class VersionNotLoaded(ValueError):
    """An object was loaded without its version (``defer``, ``only``), so a write of it cannot be guarded.

    Attributes:
        model: the model class.
        pk: the primary key of the object.
    """

    def __init__(self, *, model: type[Model], pk: Any, field: str) -> None:
        self.model = model
        self.pk = pk
        super().__init__(
            f"{model._meta.label} {pk!r} was loaded without its {field!r} field, so nothing tells whether the row "
            f"changed meanwhile. Load it together with the others: .only(..., {field!r})."
        )


# Conflict classes by model and general class; weak, since migrations make models and drop them.
_NOT_UPDATED: WeakKeyDictionary[type[Model], dict[type[Conflict], type[Conflict]]] = WeakKeyDictionary()


def _caught_as_not_updated(cls: type[Conflict], model: type[Model]) -> type[Conflict]:
    """Return the class of a conflict about ``model``: on Django 6 one that derives from the model's ``NotUpdated``.

    An except clause looks at real bases alone. The class goes by the name of the general one, and pickles as it.
    """
    not_updated = getattr(model, "NotUpdated", None)
    if not_updated is None or issubclass(cls, not_updated):
        return cls
    classes = _NOT_UPDATED.setdefault(model, {})
    if cls not in classes:
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        classes[cls] = type(cls.__name__, (cls, not_updated), {**names, "_occ_general": cls})
    return classes[cls]


def _general(cls: type[Conflict]) -> type[Conflict]:
    return getattr(cls, "_occ_general", cls)


def _rebuild_conflict(cls: type[Conflict], message: str, facts: dict[str, Any]) -> Conflict:
    return cls(message, **facts)


def _rebuild_field_conflict(cls: type[FieldConflict], facts: dict[str, Any]) -> FieldConflict:
    return cls(**facts)

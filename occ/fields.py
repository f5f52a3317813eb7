"""VersionField: the column that every guarded write compares and moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.core import checks
from django.db import connections, models, router
from django.db.models.query_utils import DeferredAttribute

from occ.exceptions import VersionNotLoaded

if TYPE_CHECKING:
    _IntegerField = models.BigIntegerField[int, int]
else:
    _IntegerField = models.BigIntegerField

UNSET = 0  # the version in memory of an object that has no row yet; no row ever has it
FIRST = 1
LARGEST = 2**63 - 2  # the column is a signed 64-bit integer and the next version must fit too


def from_clock() -> int:
    """Return the time as a version to start from: microseconds since 1970, below 2**53 until the year 2255.

    For tables whose keys can come back (slugs, keys chosen by clients): a row deleted and created again does not
    answer to the versions of its predecessor. Use as ``VersionField(start=occ.from_clock)``.
    """
    return time.time_ns() // 1000


class VersionAttribute(DeferredAttribute):
    """Reads a version that was deferred without keeping it.

    A version that was loaded after the other fields proves nothing about them, so it must not become the one that
    the next save compares.
    """

    if TYPE_CHECKING:
        field: VersionField

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if instance is None:
            return self
        data = instance.__dict__
        if self.field.attname in data:
            return data[self.field.attname]
        using = instance._state.db or router.db_for_read(type(instance), instance=instance)
        manager = type(instance)._base_manager
        return manager.using(using).values_list(self.field.attname, flat=True).get(pk=instance.pk)


class VersionField(_IntegerField):
    """A counter that moves by one with every write of its row.

    It is ``NOT NULL`` with a database default of 1, so that PostgreSQL and MySQL add it to a table without rewriting
    it and rows inserted by older code start right. In memory it is 0 until the object has a row. It is not editable,
    and must not be indexed: an index would turn every update into an index write (on PostgreSQL no update would be
    heap-only any more).

    Args:
        start: the version of a new row: a number, 1 or more, or a callable such as ``occ.from_clock``.
    """

    description = "Version of the row, for optimistic locking"
    descriptor_class = VersionAttribute

    def __init__(self, *args: Any, start: int | Callable[[], int] = FIRST, **kwargs: Any) -> None:
        if not callable(start) and (type(start) is not int or not FIRST <= start <= LARGEST):
            raise ValueError(f"start must be a whole number, {FIRST} or more, or a callable, not {start!r}.")
        self.start = start
        kwargs.setdefault("default", UNSET)
        kwargs.setdefault("db_default", FIRST)
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        for option, ours in (("default", UNSET), ("db_default", FIRST), ("editable", False)):
            if kwargs.get(option) == ours:
                del kwargs[option]
        if self.start != FIRST:
            kwargs["start"] = self.start
        return name, path, args, kwargs

    def contribute_to_class(self, cls: type[models.Model], name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only=private_only)
        cls._occ_version_field = self  # type: ignore[attr-defined]

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the version to store: the start for a new row, else the next one.

        A guarded model moves its version in memory itself, once the row is written. Others that have the field, such
        as the historical models of migrations, are moved here.
        """
        if add:
            version = model_instance.__dict__.get(self.attname, UNSET)
            if version == UNSET:
                version = self.start() if callable(self.start) else self.start
                setattr(model_instance, self.attname, version)
            return version
        if getattr(model_instance, "_occ_guarded", False):
            return model_instance.__dict__[self.attname] + 1
        version = get_version(model_instance) + 1
        setattr(model_instance, self.attname, version)
        return version

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        # A fixture that names no version is saved raw, without pre_save.
        return super().get_db_prep_save(FIRST if type(value) is int and value == UNSET else value, connection)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        return [*super().check(**kwargs), *self._check_options()]

    def _check_options(self) -> Iterable[checks.CheckMessage]:
        if self.null:
            yield checks.Error(
                "A VersionField must not be null: a row without a version could be overwritten unseen.",
                hint="Remove null=True; the database default gives existing rows version 1.",
                obj=self,
                id="occ.E002",
            )
        if self.db_index or self.unique or self.primary_key:  # type: ignore[attr-defined]
            yield checks.Warning(
                "A VersionField should not be indexed: every update would have to write the index too.",
                hint="Remove db_index, unique or primary_key.",
                obj=self,
                id="occ.W001",
            )


def version_field(model: type[models.Model] | models.Model) -> VersionField | None:
    """Return the VersionField of a model or instance, whatever its name, or None."""
    field: VersionField | None = getattr(model, "_occ_version_field", None)
    return field


def unguarded_names(model: type[models.Model]) -> frozenset[str]:
    """Return the names and attnames of the model's ``occ_unguarded_fields``."""
    fields = (model._meta.get_field(name) for name in getattr(model, "occ_unguarded_fields", ()))
    return frozenset(name for field in fields for name in (field.name, getattr(field, "attname", field.name)))


def only_unguarded(model: type[models.Model], names: Iterable[str]) -> bool:
    """Tell whether a write of just the fields of these names leaves the version of ``model`` alone."""
    return bool(getattr(model, "occ_unguarded_fields", ())) and set(names) <= unguarded_names(model)


def get_version(instance: models.Model) -> int:
    """Return the version that ``instance`` was read at, 0 when it has no row yet.

    Raises:
        VersionNotLoaded: the version was deferred.
        ValueError: the attribute holds something that is no version.
    """
    field: VersionField = instance._occ_version_field  # type: ignore[attr-defined]
    try:
        version = instance.__dict__[field.attname]
    except KeyError:
        raise VersionNotLoaded(model=type(instance), pk=instance.pk, field=field.name) from None
    if type(version) is int and UNSET <= version <= LARGEST:
        return version
    raise ValueError(
        f"{field.name} of {instance._meta.label} {instance.pk!r} must be the whole number that was read with the "
        f"object, not {version!r:.100}."
    )


def read_version(model: type[models.Model], field: models.Field[Any, Any], pk: Any, using: str) -> int | None:
    """Return the version that the row has now, None when it is gone.

    Where a plain read could show an old snapshot (MySQL under REPEATABLE READ) it is a locking one.
    """
    queryset = model._base_manager.using(using).filter(pk=pk)
    connection = connections[using]
    if connection.vendor == "mysql" and connection.in_atomic_block:
        queryset = queryset.select_for_update()
    version: int | None = queryset.values_list(field.attname, flat=True).first()
    return version

"""OptimisticLockModel: the guarded INSERT, UPDATE and DELETE.

The private methods of Django's ``Model`` that are overridden here, and relied on nowhere else: ``save_base``,
``_save_table`` and ``_do_update`` (which has one more argument, and returns rows instead of a bool, from Django 6 on;
it is passed through), and ``Field.cached_col``. tests/occ/test_django_seams.py pins them.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Self, cast

from asgiref.sync import sync_to_async
from django.core import checks as django_checks
from django.db import connections, models, router, transaction
from django.db.models.sql.where import AND

from occ.deletion import GuardedCollector
from occ.exceptions import Conflict
from occ.fields import FIRST, UNSET, VersionField, get_version, only_unguarded, read_version, unguarded_names
from occ.journal import follow_reading, is_moved, open_journals, record
from occ.keys import changed_key, remember_row, take_new_key
from occ.model_checks import check_model
from occ.querysets import OptimisticLockManager, OptimisticLockQuerySet
from occ.refusals import leave_usable, refuse, refuse_changed_key, refuse_undone
from occ.signals import write_observers
from occ.snapshots import follow_save, may_be_skipped

__all__ = ["OptimisticLockManager", "OptimisticLockModel", "OptimisticLockQuerySet"]


class OptimisticLockModel(models.Model):
    """A model whose every write is conditional on the version that was read.

    ``save()`` and ``delete()`` raise ``occ.Conflict`` when the row moved or went, and leave it untouched. A save
    issues the one statement that Django's would, with the version in its WHERE and SET. To overwrite on purpose, take
    the current version first (``refresh_from_db(fields=["version"])``); nothing switches the check off.

    A model with a ``version`` column of another meaning sets ``version = None`` and adds a ``VersionField`` under
    another name.
    """

    version = VersionField()

    objects: ClassVar[OptimisticLockManager[Self]] = OptimisticLockManager()
    _occ_base_manager: ClassVar[type[OptimisticLockManager[Any]]] = OptimisticLockManager  # what GuardedOptions makes

    #: Derived columns (counter caches, last_seen): a write of these alone neither checks nor moves the version, and a
    #: full ``save()`` leaves them out.
    occ_unguarded_fields: ClassVar[tuple[str, ...] | list[str]] = ()

    # Set by a package that must write in the same transaction as this model's writes: save() and delete() then open
    # one, if none is open, that includes the signal handlers.
    _occ_atomic_writes: ClassVar[bool] = False

    _occ_guarded: ClassVar[bool] = True
    _occ_only_key: ClassVar[str | None] = None  # the attribute with the key, where one says which row it is
    _occ_version_field: ClassVar[Any]  # the VersionField; set by its contribute_to_class

    class Meta:
        abstract = True

    @classmethod
    def check(cls, **kwargs: Any) -> list[django_checks.CheckMessage]:
        return [*super().check(**kwargs), *check_model(cls)]

    @classmethod
    def from_db(cls, db: str | None, field_names: Any, values: Any, **kwargs: Any) -> Any:
        instance = super().from_db(db, field_names, values, **kwargs)
        name = cls._occ_only_key
        if name is None:
            remember_row(instance)
        else:  # what that would do, without the cost of a call for every row that is read
            instance._state.occ_pk = instance.__dict__.get(name)  # type: ignore[attr-defined]
        if open_journals:
            follow_reading(instance, db)
        return instance

    def refresh_from_db(self, using: str | None = None, fields: Any = None, from_queryset: Any = None) -> None:
        fields = None if fields is None else list(fields)
        super().refresh_from_db(using, fields, from_queryset)
        if fields is None or self._occ_version_field.name in fields or self._occ_version_field.attname in fields:
            self._state.__dict__.pop("occ_reading", None)
            follow_reading(self, self._state.db)
        if "occ_snapshot" in self._state.__dict__:
            follow_save(self, None if fields is None else set(fields))

    def save_base(
        self,
        raw: bool = False,
        force_insert: Any = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Any = None,
    ) -> None:
        skipping = "occ_skip_unchanged" in self._state.__dict__ and not (raw or force_insert)
        if skipping and may_be_skipped(self, update_fields):
            return
        if update_fields and self.occ_unguarded_fields:
            if self._is_all_that_is_loaded(update_fields):
                # Not named by the caller: derived columns are left out, unless there are no others.
                update_fields = frozenset(update_fields) - unguarded_names(type(self)) or update_fields
            elif (derived := frozenset(update_fields) - {self._occ_version_field.name}) <= unguarded_names(type(self)):
                # update_or_create() names the version beside the columns that it was given. Alone it is a touch().
                update_fields = derived or update_fields
        try:
            if self._occ_atomic_writes and not raw:
                using = using or router.db_for_write(type(self), instance=self)
                with transaction.atomic(using=using, savepoint=False):
                    super().save_base(raw, force_insert, force_update, using, update_fields)
            else:
                super().save_base(raw, force_insert, force_update, using, update_fields)
        except Conflict as conflict:
            leave_usable(conflict, self)
            raise
        if "occ_snapshot" in self._state.__dict__:
            follow_save(self, update_fields)

    def _save_table(
        self,
        raw: bool = False,
        cls: type[models.Model] | None = None,
        force_insert: bool = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Any = None,
    ) -> bool:
        save_table = super()._save_table  # type: ignore[misc]
        field = self._occ_version_field
        if raw:
            with _Raw(self):
                found = bool(save_table(raw, cls, force_insert, force_update, using, update_fields))
            if cls is field.model and self.__dict__.get(field.attname) == UNSET:
                self.__dict__[field.attname] = FIRST  # what VersionField stores for an unset one
            return found
        if cls is not field.model:
            found = bool(save_table(raw, cls, force_insert, force_update, using, update_fields))
            if cls is self._meta.concrete_model:  # the last of its tables: it has all its keys by now
                remember_row(self)
            return found
        unguarded = update_fields and only_unguarded(type(self), update_fields)
        version = UNSET if unguarded else get_version(self)
        state = self._state
        loaded_pk = state.__dict__.get("occ_pk")
        pk = self.pk
        if loaded_pk is None:
            if version == UNSET and state.adding and not force_update and not update_fields:
                force_insert = True
        elif pk != loaded_pk or state.adding or ("occ_inherited_keys" in state.__dict__ and changed_key(self)):
            if state.adding or not self._is_pk_set():  # type: ignore[attr-defined]
                # A copy saved as a new row.
                setattr(self, field.attname, UNSET)
                force_insert = not (force_update or update_fields)
                if not self._is_pk_set():  # type: ignore[attr-defined]
                    take_new_key(self, cls)
            else:
                refuse_changed_key(self, "save", version, cast(str, using))
        if "occ_reading" in state.__dict__ and not (force_insert or unguarded):
            refuse_undone(self, "save", version, cast(str, using))
        adding = state.adding
        version_before = self.__dict__[field.attname] if adding else version
        try:
            updated: bool = save_table(raw, cls, force_insert, force_update, using, update_fields)
        except BaseException:
            if adding:  # pre_save gave it the start of a row that is not there: it was never read
                self.__dict__[field.attname] = version_before
            raise
        if not updated:
            connection = connections[cast(str, using)]
            if not connection.autocommit or connection.in_atomic_block:
                record(connection, self, cls, self._get_pk_val(cls._meta), version, adding)
            state.__dict__.pop("occ_reading", None)
        if not updated or loaded_pk is None:
            remember_row(self)
        return updated

    def _do_update(  # type: ignore[override]  # Django 5.2 passes and returns less
        self,
        base_qs: Any,
        using: str,
        pk_val: Any,
        values: list[tuple[models.Field[Any, Any], None, Any]],
        update_fields: Any,
        forced_update: Any,
        *returning: Any,
    ) -> Any:
        field = self._occ_version_field
        model = base_qs.model
        if model is not field.model or "occ_raw" in self._state.__dict__:
            do_update: Any = super()._do_update
            return do_update(base_qs, using, pk_val, values, update_fields, forced_update, *returning)
        attname = field.attname
        if self.occ_unguarded_fields:
            derived = unguarded_names(type(self))
            if update_fields is None:
                values = [triple for triple in values if triple[0].name not in derived]
            if all(column.name in derived for column, _, _ in values):
                do_update = super()._do_update
                return do_update(base_qs, using, pk_val, values, update_fields, forced_update, *returning)
        version = self.__dict__[attname]
        if update_fields is not None and field.name not in update_fields and attname not in update_fields:
            values.append((field, None, version + 1))
        guard = _guard_lookups(model)
        if guard is None:
            base_qs = base_qs.filter(pk=pk_val, **{field.name: version})
        else:
            # The lookups go straight into the WHERE: QuerySet.filter() costs a fifth of a save.
            (key_lookup, key_column), (version_lookup, version_column) = guard
            where = base_qs.query.where
            where.add(key_lookup(key_column, pk_val), AND)
            where.add(version_lookup(version_column, version), AND)
        written = base_qs._update(values, *returning)
        if not written:
            actual = read_version(model, field, pk_val, using)
            if actual is None and self._state.db not in (None, using) and not self._is_routed_to(using):
                return written  # loaded from another database and not in this one yet: Django inserts it
            refuse(self, "save", pk_val, version, actual, using)
        connection = connections[using]
        if not connection.autocommit or connection.in_atomic_block:
            record(connection, self, model, pk_val, version)
        self.__dict__[attname] = version + 1
        for observe in write_observers:
            observe(type(self), 1)
        return written if returning else True  # Django 6 returns the rows, 5.2 whether there was one

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete the row if it is still at the version that was read; see ``Model.delete``.

        Raises:
            Conflict: the row was changed or deleted meanwhile. Nothing was deleted, what would cascade included.
        """
        if not self._is_pk_set():  # type: ignore[attr-defined]
            return super().delete(using=using, keep_parents=keep_parents)
        using = using or router.db_for_write(type(self), instance=self)
        field = self._occ_version_field
        root = cast("type[models.Model]", field.model)
        version, key = get_version(self), self.pk
        root_key = self._get_pk_val(root._meta)

        def refuse_delete(first: bool) -> None:
            actual = read_version(root, field, root_key, using)
            refuse(self, "delete", root_key, version, actual, using, first=first)

        if keep_parents and root is not self._meta.concrete_model:
            with transaction.atomic(using=using, savepoint=False):
                self.save_base(using=using, update_fields=frozenset({field.name}))
                return super().delete(using=using, keep_parents=True)
        if not self._state.adding:
            refuse_changed_key(self, "delete", version, using)
        if "occ_reading" in self._state.__dict__:
            refuse_undone(self, "delete", version, using)
        collector = GuardedCollector(using=using, origin=self)
        collector.collect([self], keep_parents=keep_parents)
        try:
            if self._occ_atomic_writes:
                with transaction.atomic(using=using, savepoint=False):
                    deleted = collector.delete_guarded(field, root_key, version, refuse_delete)
            else:
                deleted = collector.delete_guarded(field, root_key, version, refuse_delete)
        except BaseException as error:
            self.pk = key
            if isinstance(error, Conflict):
                leave_usable(error, self)
            raise
        for observe in write_observers:
            observe(type(self), 1)
        return deleted

    delete.alters_data = True  # type: ignore[attr-defined]

    def touch(self, using: str | None = None) -> None:
        """Move the version without another change, so that who read the object before is refused.

        For changes that belong to the object but are not in its row, such as its many-to-many relations. After a save
        of this object in the same transaction the version has moved already, and one read makes sure that it still
        stands. A save that follows a touch moves it again: who has read the row in between must be refused.

        Raises:
            Conflict: the row moved meanwhile.
        """
        using = using or router.db_for_write(type(self), instance=self)
        field, version = self._occ_version_field, get_version(self)
        if not is_moved(connections[using], self):
            self.save(using=using, update_fields=[field.name])
        elif (actual := read_version(type(self), field, self.pk, using)) != version:
            refuse(self, "touch", self.pk, version, actual, using)

    touch.alters_data = True  # type: ignore[attr-defined]

    async def atouch(self, using: str | None = None) -> None:
        """Do as ``touch`` does, in a thread."""
        await sync_to_async(self.touch)(using=using)

    atouch.alters_data = True  # type: ignore[attr-defined]

    def _is_routed_to(self, using: str) -> bool:
        """Tell whether this object is always written there, so that it was read from a replica or the like."""
        return router.db_for_write(type(self), instance=self) == using

    def _is_all_that_is_loaded(self, update_fields: Any) -> bool:
        """Tell whether ``save()`` itself named the fields, as Django's does where some are deferred: by attname."""
        columns, keys = self._meta.concrete_fields, self._meta.pk_fields
        unsaved = {f.attname for f in columns if f.primary_key or f.generated or f in keys}
        written = {f.attname for f in columns} - unsaved
        loaded = written & self.__dict__.keys()
        return loaded != written and loaded == set(update_fields) - unsaved


@functools.cache
def _guard_lookups(model: type[OptimisticLockModel]) -> tuple[tuple[Any, Any], tuple[Any, Any]] | None:
    """Return lookup class and column of key and version, or None where the key is more than one plain column."""
    key = model._meta.pk
    if key.is_relation or model._meta.is_composite_pk:
        return None
    version = model._occ_version_field
    return (key.get_lookup("exact"), key.cached_col), (version.get_lookup("exact"), version.cached_col)


class _Raw:
    """Marks an object while it is saved raw (fixtures): verbatim and unchecked, as Django's serializers expect."""

    def __init__(self, instance: models.Model) -> None:
        self.state = instance._state

    def __enter__(self) -> None:
        self.state.occ_raw = True  # type: ignore[attr-defined]

    def __exit__(self, *exc_info: object) -> None:
        del self.state.occ_raw  # type: ignore[attr-defined]

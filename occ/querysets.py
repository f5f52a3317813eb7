"""The queryset and manager of optimistic-locked models: what writes rows also moves their version."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections, models, transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest
from django.db.models.options import Options
from django.db.models.signals import class_prepared
from django.utils.functional import cached_property

from occ.fields import UNSET, only_unguarded, version_field
from occ.journal import record, record_rows
from occ.keys import remember_row
from occ.locks import take_write_lock
from occ.managed_fields import ownable_fields
from occ.signals import ROWS_WRITTEN_LIMIT, rows_written, send_rows_written
from occ.upsert import UpsertQuery
from occ.writes import GuardedWrites

_M = TypeVar("_M", bound=models.Model)


class OptimisticLockQuerySet(GuardedWrites[_M], models.QuerySet[_M, _M]):
    """A queryset whose ``update`` moves the version of every row it writes, and that can ``mutate`` one row."""

    def update(self, **kwargs: Any) -> int:
        """Update the rows and add one to the version of each; see ``QuerySet.update``.

        Objects already loaded from these rows are stale afterwards, as they should be. A version named here can
        only be raised, never taken back. Fields named in the model's ``occ_unguarded_fields``, written alone, leave
        the version as it is.
        """
        field = version_field(self.model)
        if field is None or not kwargs or only_unguarded(self.model, kwargs):
            return super().update(**kwargs)
        following = F(field.name) + 1
        if field.name in kwargs:
            given = kwargs[field.name]
            if given is None:
                raise ValueError(f"{field.name} of {self.model._meta.label} must be a whole number, not None.")
            wanted = given if hasattr(given, "resolve_expression") else Value(given, output_field=field)
            kwargs[field.name] = Greatest(wanted, following)
        else:
            kwargs[field.name] = following
        observed = rows_written.has_listeners(self.model)
        several = field.model is not self.model._meta.concrete_model and not self.query.is_sliced  # refused by Django
        if not observed and not several:
            rows = super().update(**kwargs)
            if rows:
                record_rows(connections[self.db], field.model)
            return rows
        self._for_write = True
        with transaction.atomic(using=self.db, savepoint=False):
            queryset = self._with_roots_locked(field.model) if several else self
            pks = list(queryset.order_by().values_list("pk", flat=True)[: ROWS_WRITTEN_LIMIT + 1]) if observed else []
            rows = super(OptimisticLockQuerySet, queryset).update(**kwargs)
            if rows:
                record_rows(connections[self.db], field.model)
            if rows and observed:
                send_rows_written(self.model, self.db, pks, "update")
        return rows

    update.alters_data = True  # type: ignore[attr-defined]

    def _with_roots_locked(self, root: type[models.Model]) -> OptimisticLockQuerySet[_M]:
        """Lock the rows that carry the versions, as a save does first, and return the queryset to update.

        Django selects the keys and then writes table after table. Without the lock a save between two of these would
        be overwritten unseen, and two updates on one condition would both find that it holds.
        """
        connection = connections[self.db]
        if not connection.features.has_select_for_update:
            take_write_lock(root, connection)
            return self
        roots = root._base_manager.using(self.db).filter(pk__in=self.values("pk"))
        list(roots.order_by("pk").select_for_update().values_list("pk"))
        # MySQL's plain reads may show an old snapshot.
        return self.select_for_update() if connection.vendor == "mysql" else self

    def bulk_create(self, objs: Iterable[_M], *args: Any, **kwargs: Any) -> list[_M]:
        """Insert many objects; see ``QuerySet.bulk_create``. Versions start as those of saved objects do.

        With ``update_conflicts=True`` the rows that are updated instead move their version by one. With
        ``ignore_conflicts=True`` nothing tells which objects were inserted, so none can be saved afterwards: read
        them first. Where somebody listens to ``occ.signals.rows_written``, it is sent in the transaction of the insert.
        """
        objs = list(objs)
        field = version_field(self.model)
        if field is None:
            return super().bulk_create(objs, *args, **kwargs)
        before = [obj.__dict__.get(field.attname, UNSET) for obj in objs]
        adding = [obj._state.adding for obj in objs]
        self._for_write = True
        observed = bool(objs) and rows_written.has_listeners(self.model)
        try:
            with transaction.atomic(using=self.db, savepoint=False) if observed else nullcontext():
                created = super().bulk_create(objs, *args, **kwargs)
                if observed:
                    send_rows_written(self.model, self.db, _keys(objs), "bulk_create")
        except BaseException:
            for obj, version, new in zip(objs, before, adding, strict=True):
                vars(obj)[field.attname], obj._state.adding = version, new
            raise
        connection = transaction.get_connection(self.db)
        unknown = kwargs.get("ignore_conflicts") or (len(args) > 1 and args[1])
        for obj, version in zip(objs, before, strict=True):
            if unknown:
                vars(obj)[field.attname] = UNSET
                continue
            remember_row(obj)
            if connection.in_atomic_block or not connection.autocommit:
                key = obj._get_pk_val(field.model._meta)
                record(connection, obj, field.model, key, version, adding=True)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]

    def _insert(
        self,
        objs: Any,
        fields: Any,
        returning_fields: Any = None,
        raw: bool = False,
        using: str | None = None,
        on_conflict: Any = None,
        update_fields: Any = None,
        unique_fields: Any = None,
    ) -> Any:
        field = version_field(self.model)
        if field is None or not update_fields or only_unguarded(self.model, [f.name for f in update_fields]):
            insert = super()._insert  # type: ignore[misc]
            return insert(objs, fields, returning_fields, raw, using, on_conflict, update_fields, unique_fields)
        owners: Any = getattr(self.model, "_occ_managed_fields", None)
        updated = [column for column in update_fields if column is not field and column is not owners]
        owned = [column.name for column in updated if owners and column.name in ownable_fields(self.model)]
        query = UpsertQuery(
            self.model,
            on_conflict=on_conflict,
            update_fields=[*updated, *([owners] if owned else ()), field],  # the version last, see Change.sql
            unique_fields=unique_fields,
        )
        query.version = field
        if owned:
            query.owners, query.owned = owners, owned
        query.insert_values(fields, objs, raw=raw)
        self._for_write = True
        returned = query.get_compiler(using=using or self.db).execute_sql(returning_fields)
        record_rows(connections[using or self.db], field.model)
        return returned

    @classmethod
    def as_manager(cls) -> OptimisticLockManager[_M]:
        """Return a manager with the methods of this queryset; see ``QuerySet.as_manager``."""
        manager = OptimisticLockManager.from_queryset(cls)()
        manager._built_with_as_manager = True  # type: ignore[attr-defined]
        return manager

    as_manager.queryset_only = True  # type: ignore[attr-defined]


if TYPE_CHECKING:

    class OptimisticLockManager(GuardedWrites[_M], models.Manager[_M]):
        """The manager of optimistic-locked models; also used by the historical models of migrations."""

        def get_queryset(self) -> OptimisticLockQuerySet[_M]: ...
        def all(self) -> OptimisticLockQuerySet[_M]: ...
        def none(self) -> OptimisticLockQuerySet[_M]: ...
        def using(self, alias: str | None) -> OptimisticLockQuerySet[_M]: ...
        def filter(self, *args: Any, **kwargs: Any) -> OptimisticLockQuerySet[_M]: ...
        def exclude(self, *args: Any, **kwargs: Any) -> OptimisticLockQuerySet[_M]: ...
        def order_by(self, *field_names: Any) -> OptimisticLockQuerySet[_M]: ...
        def select_related(self, *fields: Any) -> OptimisticLockQuerySet[_M]: ...
        def prefetch_related(self, *lookups: Any) -> OptimisticLockQuerySet[_M]: ...
        def select_for_update(self, *args: Any, **kwargs: Any) -> OptimisticLockQuerySet[_M]: ...
        def only(self, *fields: str) -> OptimisticLockQuerySet[_M]: ...
        def defer(self, *fields: Any) -> OptimisticLockQuerySet[_M]: ...
        def annotate(self, *args: Any, **kwargs: Any) -> OptimisticLockQuerySet[_M]: ...

else:

    class OptimisticLockManager(models.Manager.from_queryset(OptimisticLockQuerySet)):
        """The manager of optimistic-locked models; also used by the historical models of migrations."""

        use_in_migrations = True

        def __init_subclass__(cls, **kwargs):
            # A manager of the application is left out of migrations unless it says otherwise, as in Django: it may be
            # made on the spot, where a migration could not import it. Its model's history is guarded below.
            super().__init_subclass__(**kwargs)
            owner = next(base for base in cls.__mro__ if "use_in_migrations" in vars(base))
            if owner is OptimisticLockManager:
                cls.use_in_migrations = False


def _keys(objs: list[_M]) -> list[Any] | None:
    """Return the keys of objects that were inserted, or None where the database did not tell all of them."""
    keys: list[Any] = [obj.pk for obj in objs]
    return None if any(None in (key if isinstance(key, tuple) else (key,)) for key in keys) else keys


class GuardedOptions(Options):  # type: ignore[type-arg]
    """The ``_meta`` of a guarded model: its base manager, unless ``Meta`` names another, is an unfiltered one of ours.

    Relations, deletions and saves use that manager, whatever ``objects`` filters. It is not among the model's managers,
    where ``makemigrations`` would write it down.
    """

    @cached_property
    def base_manager(self) -> models.Manager[Any]:
        manager = super().base_manager
        if manager.name != "_base_manager":
            return manager
        guarded: models.Manager[Any] = getattr(self.model, "_occ_base_manager", OptimisticLockManager)()
        guarded.name, guarded.model, guarded.auto_created = manager.name, self.model, True
        return guarded


def _guard_managers(sender: type[models.Model], **kwargs: Any) -> None:
    """Have the managers that a model does not define itself move the version as well."""
    historical = sender.__module__ == "__fake__"  # the module of the models that migrations make
    if version_field(sender) is None or not (historical or getattr(sender, "_occ_guarded", False)):
        return
    options: Any = sender._meta
    if type(options) is Options:
        options.__class__ = GuardedOptions
        options.__dict__.pop("base_manager", None)
    managers: list[Any] = options.local_managers if historical else []
    for manager in managers:  # plain ones stand in for the application's
        if not issubclass(manager._queryset_class, OptimisticLockQuerySet):
            manager._queryset_class = OptimisticLockQuerySet


class_prepared.connect(_guard_managers, dispatch_uid="occ.querysets")

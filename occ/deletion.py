"""The guarded DELETE: Django's collector, with the version in the WHERE of the row that was asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, cast

from django.db import connections, models, transaction
from django.db.migrations.serializer import BaseSerializer, serializer_factory
from django.db.migrations.writer import MigrationWriter
from django.db.models import signals, sql
from django.db.models.deletion import Collector

from occ.fields import version_field


class GuardedCollector(Collector):
    """Collects as Django does, but keeps the row that carries the version apart and deletes it last.

    All rows that refer to it are gone by then, and a refusal undoes them together with it.
    """

    guarded: models.Model | None = None  # the instance of the versioned table: the object itself or its root parent

    def instances_with_model(self) -> Iterator[tuple[type[models.Model], models.Model]]:
        # Django's delete() sends pre_delete for these: the guarded row gets its signal in its usual place, at the end.
        yield from super().instances_with_model()
        if self.guarded is not None:
            yield type(self.guarded), self.guarded

    def delete_guarded(
        self, field: models.Field[Any, Any], pk: Any, version: int, refuse: Callable[[bool], None]
    ) -> tuple[int, dict[str, int]]:
        """Delete all that was collected, the row ``pk`` of ``field``'s table last and only if it is at ``version``.

        Otherwise it calls ``refuse(first)``, which raises; ``first`` tells whether no row was written before it.
        Returns what ``Model.delete`` returns.
        """
        self.guarded = root = self._take_out(field.model, pk)
        released = self._spare(root)
        sender = type(root)
        alone = not any(self.data.values()) and not self.fast_deletes and not self.field_updates
        if alone and not (signals.pre_delete.has_listeners(sender) or signals.post_delete.has_listeners(sender)):
            with transaction.mark_for_rollback_on_error(self.using):
                if not delete_guarded_row(field, pk, version, self.using):
                    refuse(True)
            deleted = {sender._meta.label: 1}
        else:
            with transaction.atomic(using=self.using, savepoint=False):
                if released and not connections[self.using].features.can_defer_constraint_checks:
                    rows = sender._base_manager.using(self.using).filter(**{"pk": pk, field.name: version})
                    version += 1  # said here, or else a version trigger would
                    if not models.QuerySet.update(rows, **released, **{field.name: version}):
                        refuse(True)
                _, deleted = self.delete()
                if not delete_guarded_row(field, pk, version, self.using):
                    refuse(not deleted and not self.field_updates)
                signals.post_delete.send(sender=sender, instance=root, using=self.using, origin=self.origin)
            deleted[sender._meta.label] = deleted.get(sender._meta.label, 0) + 1
        setattr(root, sender._meta.pk.attname, None)
        return sum(deleted.values()), deleted

    def _spare(self, root: models.Model) -> dict[str, Any]:
        """Leave the guarded row out of what SET_NULL and its like write on its own table: they would move its version.

        Returns the columns of the row that refer to what is deleted with it, itself included, and their new values.
        """
        released = {}
        for (field, value), found in self.field_updates.items():
            if version_field(field.model) is not version_field(root):
                continue
            self.field_updates[field, value] = [_without(root, rows) for rows in found]
            reference = root.__dict__.get(field.attname)
            target = cast("models.ForeignKey[Any, Any]", field).target_field.attname
            if any(getattr(instance, target, None) == reference for _, instance in self.instances_with_model()):
                released[field.attname] = value
        return released

    def _take_out(self, model: type[models.Model], pk: Any) -> models.Model:
        for collected, instances in self.data.items():
            if collected._meta.concrete_model is model:
                for instance in instances:
                    if instance.pk == pk:
                        self.data[collected] = {other for other in instances if other is not instance}
                        return instance
        raise LookupError(f"{model._meta.label} {pk!r} was not collected for deletion.")


def _without(root: models.Model, rows: Any) -> Any:
    if isinstance(rows, models.QuerySet) and rows._result_cache is None:
        return rows.exclude(pk=root.pk)
    return [row for row in rows if row.pk != root.pk]


class ThroughUpdate:
    """An ``on_delete`` of Django's whose rows are written by ``QuerySet.update``, which moves their versions.

    SET_DEFAULT and SET(callable) fetch the rows first, to know whether there are any, and the collector then writes
    what was fetched by a query of its own. Given the queryset anew it writes through that, in as many statements.
    Otherwise this is the function that it stands for: equal to it, and written so in migrations.
    """

    def __init__(self, on_delete: Callable[..., None]) -> None:
        self.__wrapped__ = on_delete
        functools.update_wrapper(self, on_delete)

    def __call__(self, collector: Collector, field: Any, sub_objs: Any, using: str) -> None:
        rows = sub_objs.all() if isinstance(sub_objs, models.QuerySet) else sub_objs
        self.__wrapped__(collector, field, rows, using)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if isinstance(other, ThroughUpdate) else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)


class _ThroughUpdateSerializer(BaseSerializer):
    def serialize(self) -> tuple[str, set[str]]:
        written: tuple[str, set[str]] = serializer_factory(self.value.__wrapped__).serialize()
        return written


MigrationWriter.register_serializer(ThroughUpdate, _ThroughUpdateSerializer)


def _write_through_update(sender: type[models.Model], **kwargs: Any) -> None:
    if version_field(sender) is None:
        return
    for field in sender._meta.local_fields:
        on_delete = getattr(field.remote_field, "on_delete", None)
        fetches = on_delete == models.SET_DEFAULT or getattr(on_delete, "__qualname__", "").startswith("SET.<locals>")
        if fetches and not (isinstance(on_delete, ThroughUpdate) or hasattr(on_delete, "lazy_sub_objs")):
            field.remote_field.on_delete = ThroughUpdate(on_delete)  # type: ignore[union-attr,arg-type]


signals.class_prepared.connect(_write_through_update, dispatch_uid="occ.deletion")


def delete_guarded_row(field: models.Field[Any, Any], pk: Any, version: int, using: str) -> bool:
    """Delete the row of ``field``'s table if it is still at ``version``. Returns whether it was."""
    query = sql.DeleteQuery(field.model)
    query.add_q(models.Q(pk=pk) & models.Q((field.name, version)))
    return bool(query.do_query(field.model._meta.db_table, query.where, using=using))

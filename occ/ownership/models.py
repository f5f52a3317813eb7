"""FieldOwnershipModel: a model that knows which manager owns which of its fields."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from django.core import checks as django_checks
from django.db import connections, models

from occ.fields import get_version
from occ.journal import record
from occ.managed_fields import Change, ManagedFields, taken
from occ.models import OptimisticLockModel
from occ.ownership.checks import check_ownership
from occ.ownership.querysets import FieldOwnershipManager


class FieldOwnershipModel(OptimisticLockModel):
    """A model whose fields have owners, so that several controllers can write one row without conflicts.

    ``Model.objects.apply(pk, {"replicas": 5}, manager="hpa")`` owns the fields that it names, and is guarded by their
    ownership alone: managers of different fields never conflict. Plain saves are guarded by the version as ever. They
    always win and take the fields that they changed, for the manager that ``occ.field_manager`` names, else for
    "unknown". They still are one statement.

    An existing model adopts it by its base class and one migration, which rewrites no table.
    """

    managed_fields = ManagedFields()

    objects: ClassVar[FieldOwnershipManager[Self]] = FieldOwnershipManager()
    _occ_base_manager: ClassVar[type[FieldOwnershipManager[Any]]] = FieldOwnershipManager

    _occ_guarded: ClassVar[bool] = True
    _occ_managed_fields: ClassVar[Any]  # the ManagedFields; set by its contribute_to_class

    class Meta(OptimisticLockModel.Meta):
        abstract = True

    @classmethod
    def check(cls, **kwargs: Any) -> list[django_checks.CheckMessage]:
        return [*super().check(**kwargs), *check_ownership(cls)]

    @classmethod
    def from_db(cls, db: str | None, field_names: Any, values: Any, **kwargs: Any) -> Any:
        instance = super().from_db(db, field_names, values, **kwargs)
        cls._occ_managed_fields.remember(instance, db)
        return instance

    def refresh_from_db(self, using: str | None = None, fields: Any = None, from_queryset: Any = None) -> None:
        fields = None if fields is None else list(fields)
        super().refresh_from_db(using, fields, from_queryset)
        if fields is not None and self._occ_version_field.name in fields:
            # To overwrite on purpose: what the row holds now in the other fields is not known.
            self._state.__dict__.pop("occ_loaded", None)
        self._occ_managed_fields.remember(self, self._state.db, fields)

    def _save_table(
        self,
        raw: bool = False,
        cls: type[models.Model] | None = None,
        force_insert: bool = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Any = None,
    ) -> bool:
        updated = super()._save_table(raw, cls, force_insert, force_update, using, update_fields)
        if not raw:
            self._occ_managed_fields.remember(self, using, update_fields if updated else None)
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
        column = self._occ_managed_fields
        do_update = super()._do_update
        if base_qs.model is not column.model or "occ_raw" in self._state.__dict__:
            return do_update(base_qs, using, pk_val, values, update_fields, forced_update, *returning)
        values[:] = [triple for triple in values if triple[0] is not column]
        for fields in returning:
            if column in fields:
                fields.remove(column)
        changed, version = column.changed_on(self, update_fields), get_version(self)
        if changed:
            values.append((column, None, column.changing(Change(entries=taken(changed)), at=version + 1)))
        written = do_update(base_qs, using, pk_val, values, update_fields, forced_update, *returning)
        if written and changed:
            connection = connections[using]
            if not connection.autocommit or connection.in_atomic_block:
                past = self._state.__dict__.get("occ_loaded")
                record(connection, self, base_qs.model, pk_val, version, past=past)
            column.follow(self, changed, version + 1)
        return written

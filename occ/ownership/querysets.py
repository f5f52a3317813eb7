"""The queryset and manager of models with field ownership: they ``apply``, and what they write takes ownership."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from asgiref.sync import sync_to_async
from django.db import models

from occ.managed_fields import Change, ownable_fields, taken
from occ.ownership.apply import Application
from occ.querysets import OptimisticLockManager, OptimisticLockQuerySet

_M = TypeVar("_M", bound=models.Model)


class Applies(Generic[_M]):
    """``apply``, for the queryset and its manager."""

    def apply(
        self, pk: Any, values: Mapping[str, Any], *, manager: str, force: bool = False, dry_run: bool = False
    ) -> _M:
        """Have ``manager`` own just the fields in ``values``, with these values.

        The rules are those of Kubernetes' server-side apply. To change a field that another manager owns is refused;
        to name it with the value that it has shares it. A field that the manager applied before and names no longer
        is given up: it returns to its default if nobody else owns it. What is as it should be already is not written,
        and nothing at all then. The write is guarded by the ownership of the fields that it touches, not by the
        version: managers of different fields never conflict. It moves the version, sets ``auto_now`` fields, and
        sends ``rows_written``, not ``post_save``.

        Values are converted as by a save, not validated. The queryset's filters apply to the row. Under REPEATABLE
        READ and above an open transaction may have to be repeated, as with every write.

        Args:
            pk: the primary key of the row.
            values: field names to values; a foreign key takes an object or a key.
            manager: who applies, 1 to 128 printable characters. The same name in ``occ.field_manager`` is another one.
            force: take the fields that others own and that have other values.
            dry_run: write nothing, and return the object as it would be (its version is not moved).

        Returns:
            The object as it is in the row afterwards.

        Raises:
            occ.FieldConflict: others own fields that would change; ``conflicts`` lists all. Nothing was written.
            DoesNotExist: there is no such row. An apply creates none.
            ValueError: a wrong name of a manager; fields that do not exist or cannot be owned; an expression.
            ValidationError: values that the fields cannot take.
            Conflict: the same fields were changed by others again and again while this one tried.
        """
        queryset = cast("models.QuerySet[_M, _M]", self)
        application = Application(queryset, values, manager=manager, force=force, dry_run=dry_run)
        return cast(_M, application.run(pk))

    apply.alters_data = True  # type: ignore[attr-defined]

    async def aapply(
        self, pk: Any, values: Mapping[str, Any], *, manager: str, force: bool = False, dry_run: bool = False
    ) -> _M:
        """Do as ``apply`` does, in a thread."""
        return await sync_to_async(self.apply)(pk, values, manager=manager, force=force, dry_run=dry_run)

    aapply.alters_data = True  # type: ignore[attr-defined]


class FieldOwnershipQuerySet(Applies[_M], OptimisticLockQuerySet[_M]):
    """A queryset that can ``apply``; what its other methods write, the current field manager owns afterwards."""

    def update(self, **kwargs: Any) -> int:
        """Update the rows; the current field manager owns the fields that are named. See ``QuerySet.update``."""
        column = getattr(self.model, "_occ_managed_fields", None)
        if column is None or column.name in kwargs:
            return super().update(**kwargs)
        ownable = ownable_fields(self.model)
        names = [name for name, field in ownable.items() if name in kwargs or field.attname in kwargs]
        if names:
            kwargs[column.name] = column.changing(Change(entries=taken(names)))
            version = self.model._occ_version_field.name  # type: ignore[attr-defined]
            if version in kwargs:  # MySQL assigns from left to right, and the entries are dated by the old version
                kwargs[version] = kwargs.pop(version)
        return super().update(**kwargs)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[_M], *args: Any, **kwargs: Any) -> list[_M]:
        """Insert many objects, owned as those of ``create``; see ``QuerySet.bulk_create``."""
        created = super().bulk_create(objs, *args, **kwargs)
        column = getattr(self.model, "_occ_managed_fields", None)
        if column is not None:
            for obj in created:
                column.remember(obj, self.db)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]


if TYPE_CHECKING:

    class FieldOwnershipManager(Applies[_M], OptimisticLockManager[_M]):
        """The manager of models with field ownership."""

else:

    class FieldOwnershipManager(OptimisticLockManager.from_queryset(FieldOwnershipQuerySet)):
        """The manager of models with field ownership."""

"""Turns the models of Django's test apps into guarded or control ones, before the apps are imported.

This does by machine what a team adopting occ does by hand: ``OptimisticLockModel`` for ``Model`` in the bases,
``OptimisticLockManager`` for ``Manager``, ``OptimisticLockQuerySet`` for ``QuerySet``. Models of Django itself and the
many-to-many tables that Django makes stay as they are, and so do the children of such models: a version belongs on the
root.
"""

from __future__ import annotations

from typing import Any, Literal

from django.db import models
from django.db.models.base import ModelBase

Mode = Literal["guarded", "control"]

# Abstract, for children of concrete models, which have a column already.
MIXINS = {"proxy_models.models.ManagerMixin", "model_inheritance_regress.models.ParkingLot4"}
UNTOUCHED = ("django.", "occ.", "__fake__")


def convert(mode: Mode) -> None:
    """Have every model root that is defined from now on gain a version, or in control a plain integer column."""
    root = _guarded_root() if mode == "guarded" else _control_root()
    make_class = ModelBase.__new__

    def make_converted(cls: type[ModelBase], name: str, bases: tuple[type, ...], attrs: dict[str, Any], **kwargs: Any):
        if _is_root(name, bases, attrs):
            bases = _with_root(bases, root)
        return make_class(cls, name, bases, attrs, **kwargs)

    ModelBase.__new__ = make_converted  # type: ignore[method-assign,assignment]


def _guarded_root() -> type[models.Model]:
    from occ.fields import VersionField
    from occ.models import OptimisticLockManager, OptimisticLockModel, OptimisticLockQuerySet

    models.Manager = OptimisticLockManager  # type: ignore[misc,assignment]
    models.QuerySet = OptimisticLockQuerySet  # type: ignore[misc,assignment]

    class GuardedModel(OptimisticLockModel):
        version = None  # some test models have a field of that name
        row_version = _last(VersionField())

        class Meta(OptimisticLockModel.Meta):
            abstract = True

    return GuardedModel


def _control_root() -> type[models.Model]:
    class ControlModel(models.Model):
        row_version = _last(models.BigIntegerField(default=0, db_default=1, editable=False))

        class Meta:
            abstract = True

    return ControlModel


def _last(column: models.Field[Any, Any]) -> models.Field[Any, Any]:
    """Have ``column`` sort behind the model's own, to which tests give values by position."""
    column.creation_counter = 10**9
    return column


def _is_root(name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> bool:
    """Tell whether a class is the place where a model gets its column: it is a model, and no base has one yet."""
    if attrs.get("__module__", "").startswith(UNTOUCHED) or getattr(attrs.get("Meta"), "auto_created", False):
        return False
    if f"{attrs.get('__module__')}.{name}" in MIXINS:
        return False
    model_bases = [base for base in bases if isinstance(base, ModelBase)]
    if not model_bases or any(_has_column(base) for base in model_bases):
        return False
    return all(base is models.Model or (base._meta.abstract and _is_plain(base)) for base in model_bases)


def _has_column(base: type[models.Model]) -> bool:
    return any(parent.__name__ in ("GuardedModel", "ControlModel") for parent in base.__mro__)


def _is_plain(base: type[models.Model]) -> bool:
    return not base.__module__.startswith("django.")


def _with_root(bases: tuple[type, ...], root: type[models.Model]) -> tuple[type, ...]:
    if models.Model in bases:
        return tuple(root if base is models.Model else base for base in bases)
    return (*bases, root)

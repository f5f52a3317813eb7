"""Which row an object is: its primary key, and for a child of other tables the keys of its rows there."""

from __future__ import annotations

import functools
from typing import Any, cast

from django.db import models
from django.db.models.signals import class_prepared


def comparable(model: type[models.Model], pk: Any) -> Any:
    """Return the key in its Python type: an object may carry "5" for 5."""
    if pk is None:
        return None
    if model._meta.is_composite_pk:
        return tuple(field.to_python(part) for field, part in zip(model._meta.pk_fields, pk, strict=True))
    return model._meta.pk.to_python(pk)


def remember_row(instance: models.Model) -> None:
    """Note on ``instance``, which was just read or written, which row it is. What is not loaded is not asked for."""
    own, inherited = _key_names(type(instance))
    state, loaded = instance._state.__dict__, instance.__dict__
    state["occ_pk"] = instance.pk if own is None else loaded.get(own)
    if inherited:
        state["occ_inherited_keys"] = {name: loaded.get(name, loaded.get(link)) for name, link in inherited}


def forget_row(instance: models.Model) -> None:
    """Note that ``instance`` has no row any more."""
    for name in ("occ_pk", "occ_inherited_keys"):
        instance._state.__dict__.pop(name, None)


def changed_key(instance: models.Model) -> tuple[Any, Any] | None:
    """Return a key of the row that ``instance`` was read from, and what it is now; None if all are as they were."""
    state, model = instance._state.__dict__, type(instance)
    before, now = state.get("occ_pk"), instance.pk
    if before is not None and before != now and comparable(model, before) != comparable(model, now):
        return before, now
    for name, before in state.get("occ_inherited_keys", {}).items():
        now = instance.__dict__.get(name, before)
        if before is not None and before != now:
            field = model._meta.get_field(name)
            if field.to_python(before) != field.to_python(now):  # type: ignore[union-attr]
                return before, now
    return None


def take_new_key(instance: models.Model, model: type[models.Model]) -> None:
    """Let a copy of a child have a new key in the table of ``model``, where it still has that of the original.

    ``pk = None`` leaves it, and Django takes one from the link between the tables again. A key that is not generated
    is its owner's to change.
    """
    key: Any = model._meta.pk
    remembered = instance._state.__dict__.get("occ_inherited_keys", {}).get(key.attname)
    generated = key is model._meta.auto_field or key.has_default() or key.has_db_default()
    if generated and remembered is not None and instance.__dict__.get(key.attname) == remembered:
        setattr(instance, key.attname, None)


@functools.cache
def _key_names(model: type[models.Model]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the attribute that holds the key, None if several do, and those that hold the keys of parents' rows.

    Beside each of these stands the one that Django looks at while it is deferred.
    """
    options, key, concrete = model._meta, model._meta.pk, cast("type[models.Model]", model._meta.concrete_model)
    root = model._occ_version_field.model  # type: ignore[attr-defined]
    own = key.attname if key.concrete else None
    inherited: dict[str, str] = {}
    if root is not concrete:
        for parent in (concrete, *options.all_parents):
            link: Any = key if parent is concrete else options.get_ancestor_link(parent)
            inherited.setdefault(parent._meta.pk.attname, link.attname)
            for field in parent._meta.parents.values():
                if field:
                    inherited.setdefault(field.attname, field.attname)
    return own, tuple((name, link) for name, link in inherited.items() if name != own)


def _name_only_key(sender: type[models.Model], **kwargs: Any) -> None:
    if getattr(sender, "_occ_guarded", False):
        own, inherited = _key_names(sender)
        sender._occ_only_key = None if inherited else own  # type: ignore[attr-defined]


class_prepared.connect(_name_only_key, dispatch_uid="occ.keys")

"""What asks for runs by itself: saves and deletes of the reconcilers' models and of those they watch.

The receivers run inside the transaction of the write (models with a reconciler open one for it), so a change and the
request to reconcile it commit together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models.signals import m2m_changed, post_delete, post_save

from occ.signals import rows_written
from reconcilers import registry
from reconcilers.reconciler import Reconciler
from reconcilers.workqueue import nudges, requests, scanner


@dataclass(frozen=True, kw_only=True)
class Source:
    """Changes of ``model`` concern the keys that ``keys`` finds."""

    reconciler: Reconciler
    keys: Callable[[Any], Any]
    own: bool  # whether the changed row is itself the one to reconcile

    def requests(self, instance: models.Model) -> Iterator[nudges.Key]:
        """Yield what a change of ``instance`` asks for."""
        found = self.keys(instance)
        if found is None:
            return
        for pk in found if _several(found) else [found]:
            if pk is not None:
                yield self.reconciler.name, self.reconciler.key_for(pk)


_sources: dict[type[models.Model], list[Source]] = {}
_made_atomic: set[type[models.Model]] = set()


def connect() -> None:
    """Listen to the models of the registered reconcilers, and of those registered or forgotten from now on."""
    registry.subscribe(_reconnect)


def _reconnect() -> None:
    for model in _sources:
        _each_signal(model, "disconnect")
    _sources.clear()
    for reconciler in registry.all_reconcilers():
        for model in _family(reconciler.model):
            _sources.setdefault(model, []).append(Source(reconciler=reconciler, keys=_own_key, own=True))
        for watched, keys in reconciler.watches.items():
            for model in _family(watched):
                _sources.setdefault(model, []).append(Source(reconciler=reconciler, keys=keys, own=False))
    for model in _sources:
        _each_signal(model, "connect")
    _write_atomically({model for r in registry.all_reconcilers() for model in (r.model, *r.watches)})


def _each_signal(model: type[models.Model], method: str) -> None:
    for signal, receiver in _RECEIVERS:
        getattr(signal, method)(receiver, sender=model)
    for field in model._meta.many_to_many:
        getattr(m2m_changed, method)(_on_relation, sender=field.remote_field.through)


def _write_atomically(sources: set[type[models.Model]]) -> None:
    """Let the writes of the models open a transaction that includes their signals, and those of no others."""
    for model in _made_atomic - sources:
        del model._occ_atomic_writes  # type: ignore[attr-defined]
    for model in sources - _made_atomic:
        if hasattr(model, "_occ_atomic_writes"):
            model._occ_atomic_writes = True
    _made_atomic.clear()
    _made_atomic.update(model for model in sources if "_occ_atomic_writes" in model.__dict__)


def _family(model: type[models.Model]) -> Iterable[type[models.Model]]:
    """Return the model with its proxies and children, whose saves are saves of it."""
    return [candidate for candidate in apps.get_models() if issubclass(candidate, model)]


def _own_key(instance: models.Model) -> Any:
    return instance.pk


def _several(found: Any) -> bool:
    return isinstance(found, Iterable) and not isinstance(found, str | bytes | tuple)


def _on_change(sender: type[models.Model], instance: models.Model, using: str, **kwargs: Any) -> None:
    keys = [key for source in _sources.get(sender, ()) for key in source.requests(instance)]
    requests.request_for_change(keys, using=using)


def _on_rows_written(sender: type[models.Model], using: str, pks: list[Any] | None, **kwargs: Any) -> None:
    sources = _sources.get(sender, ())
    if pks is None:
        # Too many to name. A scan finds those of a reconciler's own model by their versions; for a watched one there
        # is nothing to compare.
        for name, own in sorted((source.reconciler.name, source.own) for source in sources):
            scanner.want_scan(name, using=using, everything=not own)
        return
    keys: list[nudges.Key] = []
    for source in sources:
        if source.own:
            keys += [(source.reconciler.name, source.reconciler.key_for(pk)) for pk in pks]
        else:
            for instance in sender._base_manager.using(using).filter(pk__in=pks):
                keys += source.requests(instance)
    requests.request_for_change(keys, using=using)


def _on_relation(
    sender: type[models.Model],
    instance: models.Model,
    action: str,
    reverse: bool,
    model: type[models.Model],
    pk_set: set[Any] | None,
    using: str,
    **kwargs: Any,
) -> None:
    """Ask for the rows whose many-to-many field was changed, from either side."""
    if not reverse:
        if action in ("post_add", "post_remove", "post_clear"):
            _on_change(type(instance), instance, using)
        return
    if action == "pre_clear":
        # Afterwards nothing tells whose they were.
        (field,) = (f for f in model._meta.many_to_many if f.remote_field.through is sender)
        cleared = model._base_manager.using(using).filter(**{field.name: instance})
        _on_rows_written(model, using, list(cleared.values_list("pk", flat=True)))
    elif action in ("post_add", "post_remove") and pk_set:
        _on_rows_written(model, using, list(pk_set))


_RECEIVERS: list[tuple[Any, Callable[..., None]]] = [
    (post_save, _on_change),
    (post_delete, _on_change),
    (rows_written, _on_rows_written),
]

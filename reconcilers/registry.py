"""Which reconcilers this process knows, by name."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from django.db import models

from occ.attribution import check_manager_name
from occ.backoff import Backoff
from occ.fields import version_field
from reconcilers.exceptions import InvalidReconciler, UnknownReconciler
from reconcilers.reconciler import Reconciler

R = TypeVar("R", bound=type[Reconciler])

NAME_LENGTH = 100

_reconcilers: dict[str, Reconciler] = {}
_listeners: list[Callable[[], None]] = []


def register(cls: R) -> R:
    """Register a Reconciler class; use it as a decorator in ``<app>/reconcilers.py``.

    Raises:
        InvalidReconciler: the class is incomplete, or another one has its name.
    """
    if not _is_reconciler(cls):
        raise InvalidReconciler(f"@register takes a subclass of reconcilers.Reconciler, not {cls!r}.")
    name = cls.__dict__.get("name") or cls.__name__  # a subclass does not inherit its name
    known = _reconcilers.get(name)
    if known is not None and type(known) is not cls:
        other = f"{type(known).__module__}.{type(known).__qualname__}"
        raise InvalidReconciler(
            f"{cls.__module__}.{cls.__qualname__} and {other} are both named {name!r}: set `name` on one of them."
        )
    _validate(cls, name)
    if known is None:
        cls.name = name
        _reconcilers[name] = cls()
        _changed()
    return cls


def unregister(cls: type[Reconciler]) -> None:
    """Forget a reconciler, for tests; its items stay."""
    if _reconcilers.pop(cls.name, None) is not None:
        _changed()


def get(reconciler: str | type[Reconciler] | Reconciler) -> Reconciler:
    """Return the registered reconciler for a name, a class or the instance itself; ``UnknownReconciler`` if none."""
    name = reconciler if isinstance(reconciler, str) else reconciler.name
    found = _reconcilers.get(name)
    if found is None:
        raise UnknownReconciler(name or getattr(reconciler, "__name__", ""), _reconcilers)
    return found


def all_reconcilers() -> list[Reconciler]:
    """Return the registered reconcilers, sorted by name."""
    return [_reconcilers[name] for name in sorted(_reconcilers)]


def for_model(model: type[models.Model]) -> Iterator[Reconciler]:
    """Yield the reconcilers of rows of ``model``, a proxy or a child of theirs included."""
    return (reconciler for reconciler in all_reconcilers() if issubclass(model, reconciler.model))


def subscribe(listener: Callable[[], None]) -> None:
    """Call ``listener`` now and whenever the set of reconcilers changes."""
    if listener not in _listeners:
        _listeners.append(listener)
    listener()


def _changed() -> None:
    for listener in _listeners:
        listener()


def _is_reconciler(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, Reconciler)


def _validate(cls: type[Reconciler], name: str) -> None:
    for problem in itertools.chain(_problems(cls, name), _wrong_signatures(cls)):
        raise InvalidReconciler(f"{cls.__module__}.{cls.__qualname__}: {problem}")


def _problems(cls: Any, name: str) -> Iterator[str]:
    model = getattr(cls, "model", None)
    if not (isinstance(model, type) and issubclass(model, models.Model)) or model._meta.abstract:
        yield f"set `model` to the model class whose rows it reconciles, not {model!r}."
    elif version_field(model) is None:
        yield f"{model._meta.label} has no version to guard its writes: derive it from occ.models.OptimisticLockModel."
    elif cls.field_manager and not hasattr(model, "_occ_managed_fields"):
        yield (
            f"field_manager is set, but {model._meta.label} knows no ownership: derive it from "
            "occ.ownership.FieldOwnershipModel."
        )
    if cls.field_manager:
        try:
            check_manager_name(cls.field_manager)
        except ValueError as error:
            yield f"field_manager: {error}"
    if len(name) > NAME_LENGTH:
        yield f"its name is longer than {NAME_LENGTH} characters: set a shorter `name`."
    if cls.reconcile is Reconciler.reconcile:
        yield "define reconcile(self, obj)."
    if inspect.iscoroutinefunction(cls.reconcile) or inspect.iscoroutinefunction(cls.gone):
        yield "reconcile and gone must be ordinary functions; use asgiref.sync.async_to_sync inside for async work."
    if not isinstance(cls.watches, Mapping):
        yield f"watches must map model classes to functions from a changed object to keys, not be {cls.watches!r}."
        return
    for watched, keys in cls.watches.items():
        if not (isinstance(watched, type) and issubclass(watched, models.Model)) or not callable(keys):
            yield (
                "watches must map model classes to functions from a changed object to keys, not "
                f"{watched!r} to {keys!r}."
            )
        elif not _takes(keys, object()):
            yield f"the function that watches {watched.__name__} must take one argument, the changed object."
    if cls.queue is not None and (not isinstance(cls.queue, str) or not cls.queue):
        yield f"queue must be the name of a Celery queue or None, not {cls.queue!r}."
    if not isinstance(cls.backoff, Backoff):
        yield f"backoff must be an occ.Backoff, not {cls.backoff!r}."
    if type(cls.conflict_retries) is not int or cls.conflict_retries < 0:
        yield f"conflict_retries must be a whole number, 0 or more, not {cls.conflict_retries!r}."
    if type(cls.max_attempts) is not int or cls.max_attempts < 1:
        yield f"max_attempts must be a whole number, 1 or more, not {cls.max_attempts!r}."
    if not isinstance(cls.lease, dt.timedelta) or cls.lease <= dt.timedelta(0):
        yield f"lease must be a timedelta above 0, not {cls.lease!r}."
    if cls.resync is not None and (not isinstance(cls.resync, dt.timedelta) or cls.resync <= dt.timedelta(0)):
        yield f"resync must be a timedelta above 0 or None, not {cls.resync!r}."


def _wrong_signatures(cls: type[Reconciler]) -> Iterator[str]:
    """Yield what would be a TypeError in every run; there is no instance before this."""
    if not _takes(cls):
        yield "its __init__ must take no arguments: one instance serves all runs."
        return
    blank = object.__new__(cls)
    if not _takes(blank.reconcile, object()):
        yield "reconcile must take one argument beside self, the object: define reconcile(self, obj)."
    if not _takes(blank.gone, ""):
        yield "gone must take one argument beside self, the key: define gone(self, key)."


def _takes(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function can be called with these arguments; True where it does not tell."""
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:  # written in C
        return True
    except TypeError:
        return False
    return True

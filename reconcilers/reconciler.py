"""The contract that users implement: ``Reconciler``, and what the framework knows about a run of it.

Knows neither the queue nor the database tables; the controller calls it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from occ.backoff import Backoff
from reconcilers.conf import reconciler_settings
from reconcilers.exceptions import InvalidKey
from reconcilers.result import Result

KEY_LENGTH = 255
_NO_KEY = (ValidationError, ValueError, TypeError, OverflowError, RecursionError)
DEFAULT_LEASE = dt.timedelta(minutes=5)


class Reconciler:
    """Brings one row to the state it should be in; runs after every change of it, and until that succeeds.

    Subclass it in ``<app>/reconcilers.py`` with a ``model`` and a ``reconcile`` method, and decorate the class with
    ``@register``. One instance serves all runs of a process, in several threads: keep no state of a run on ``self``.

    What a run may do, and what happens then:

    ==========================================  =====================================================================
    returns None                                done; runs again at the next change or resync
    returns ``Result(requeue_after=...)``       done; runs again then, or at an earlier change
    raises ``occ.Conflict``                     runs again at once on a fresh copy, up to ``conflict_retries`` times a
                                                few milliseconds apart; then after the backoff
    raises any other exception                  logged; runs again after the backoff; parked after ``max_attempts``
    raises ``TerminalError``                    parked at once
    its worker dies                             another worker runs it when the lease has ended
    ==========================================  =====================================================================

    It will run more than once for one change, and once for several changes, so it works from the state of the row,
    never from what happened to it.
    """

    #: The model whose rows it reconciles, an ``OptimisticLockModel``. Required.
    model: ClassVar[type[models.Model]]

    #: Under which name items are stored; the class name if empty. Changing it orphans the items of the old name:
    #: ``manage.py workqueue rename OLD NEW``.
    name: str = ""

    #: Other models whose changes concern a row of ``model``: a function from the changed object to the key of that
    #: row, to several keys, or to None. It runs inside the transaction of the change, and what it raises refuses the
    #: change: the request to run must not be lost.
    watches: Mapping[type[models.Model], Callable[[Any], Any]] = {}

    #: The waits after failed runs, in seconds; its ``attempts`` are not looked at, ``max_attempts`` are.
    backoff: Backoff = Backoff(base=1.0, factor=2.0, cap=300.0, jitter="full", attempts=None)
    #: How often a run that met a conflict is repeated in place before it waits for the backoff.
    conflict_retries: int = 3
    #: Runs without a success after which the item is parked.
    max_attempts: int = 12
    #: This long after a success, give or take a tenth, it runs again, changed or not; None: never.
    resync: dt.timedelta | None = dt.timedelta(hours=10)
    #: How long a claim lasts: longer than a run takes, or another worker is given the key. Unless set, the setting
    #: ``LEASE_SECONDS``.
    lease: dt.timedelta = DEFAULT_LEASE

    #: False: no transaction is open while ``reconcile`` runs, for work that waits for the network.
    atomic: bool = True

    #: The name under which it owns fields, for a model with ``occ.ownership.FieldOwnershipModel``. Its writes are then
    #: guarded by the ownership of the fields that it changed, not by the version, so that reconcilers of different
    #: fields never conflict. What others own raises ``occ.FieldConflict``. It owns what it changed, and gives nothing
    #: up by not changing it.
    field_manager: str = ""
    #: True: take fields that others own, as Kubernetes advises for controllers.
    force_fields: bool = False

    #: The Celery queue that its messages go to; None: Celery's default routing.
    queue: str | None = None

    def reconcile(self, obj: Any, /) -> Result | None:
        """Bring ``obj`` to its desired state.

        ``obj`` is a private copy, read just now from the database that is written to. Change it and return: what
        changed is written for you, guarded by its version, in one transaction with the bookkeeping of this run.
        Nothing changed, nothing is written. Effects outside the database are not undone when the write is refused and
        the run repeated, so make them idempotent (keys that follow from the row, not new ones each time).
        """
        raise NotImplementedError(f"{type(self).__name__} must define reconcile(self, obj).")

    def gone(self, key: str) -> None:
        """Clean up after a row that no longer exists; called at least once, possibly for a row never seen."""

    def extend_lease(self) -> None:
        """Start the lease of the current run anew, for work longer than ``lease``.

        Only with ``atomic = False``: inside the run's transaction no other worker would see it.

        Raises:
            LeaseLost: another worker has the key by now. Let it pass: the run ends without writing.
            RuntimeError: outside a run, or with ``atomic = True``.
        """
        run = current_run.get()
        if run is None or run.reconciler is not self:
            raise RuntimeError("extend_lease() works inside reconcile() only.")
        if self.atomic:
            raise RuntimeError(
                f"extend_lease() needs {self.name}.atomic = False: other workers cannot see what an open transaction "
                "writes. Set it, or raise the reconciler's lease."
            )
        run.extend()

    @property
    def lease_seconds(self) -> float:
        """How long a claim lasts: ``lease``, or the setting ``LEASE_SECONDS`` where the class sets none."""
        if self.lease is DEFAULT_LEASE:
            return reconciler_settings.LEASE_SECONDS
        return self.lease.total_seconds()

    def key_for(self, pk: Any) -> str:
        """Return the one text that stands for primary key ``pk`` in the queue.

        Raises:
            InvalidKey: ``pk`` is not a possible primary key of the model.
        """
        fields = self.model._meta.pk_fields
        try:
            key = _text_of(fields[0], pk) if len(fields) == 1 else json.dumps([*map(str, self._columns(pk))])
        except _NO_KEY:
            raise self._invalid(pk) from None
        if not key:
            raise self._invalid(pk)
        return self._checked(key, pk)

    def pk_for(self, key: str) -> Any:
        """Return the primary key that ``key`` stands for; ``InvalidKey`` if there is none."""
        fields = self.model._meta.pk_fields
        try:
            return fields[0].to_python(key) if len(fields) == 1 else self._columns(key)
        except _NO_KEY:
            raise self._invalid(key) from None

    def _columns(self, pk: Any) -> tuple[Any, ...]:
        """Return the columns of a composite key that was given as such or as its text."""
        values = json.loads(pk) if isinstance(pk, str) else pk
        if not isinstance(values, tuple | list):
            raise ValueError
        return tuple(f.to_python(_text_of(f, v)) for f, v in zip(self.model._meta.pk_fields, values, strict=True))

    def _checked(self, key: str, pk: object) -> str:
        if len(key) > KEY_LENGTH:
            raise InvalidKey(self.name, f"{key[:20]}...", f"a primary key of at most {KEY_LENGTH} characters")
        if "\x00" in key or key != key.encode("utf-8", "replace").decode():
            raise self._invalid(pk)  # text that no database takes: NUL, lone surrogates
        return key

    def _invalid(self, key: object) -> InvalidKey:
        pk = self.model._meta.pk
        kind = pk.get_internal_type() if len(self.model._meta.pk_fields) == 1 else "a list of its columns"
        return InvalidKey(self.name, key, f"the primary key of a {self.model._meta.label} ({pk.name}: {kind})")

    def __repr__(self) -> str:
        return f"<Reconciler {self.name} of {self.model._meta.label}>"


def _text_of(field: Any, value: Any) -> str:
    """Return the one text of a value of a key's column; one of ``_NO_KEY`` where it cannot be one."""
    # int() would round a float to somebody else's key, and a column of text takes anything for text: an object in the
    # place of its key, a list of keys in the place of one.
    if isinstance(value, bool | float | models.Model) or (isinstance(value, Iterable) and not isinstance(value, str)):
        raise ValueError
    found = field.to_python(value)
    if found is None:
        raise ValueError
    return str(found)


@dataclass(kw_only=True)
class Run:
    """The run that this thread is in.

    Attributes:
        wrote: whether it has written something that would enqueue its own key, which its end then does, once.
    """

    reconciler: Reconciler
    key: str
    using: str
    extend: Callable[[], None]
    wrote: bool = field(default=False)

    def is_of(self, name: str, key: str, using: str) -> bool:
        """Whether this is the run of that key."""
        return self.key == key and self.reconciler.name == name and self.using == using


current_run: ContextVar[Run | None] = ContextVar("reconcilers_current_run", default=None)

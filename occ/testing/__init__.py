"""What users need to test how their code meets conflicts, without sleeping and without luck.

Plain helpers; ``pytest_plugins = ["occ.testing.plugin"]`` in a conftest gives some of them as fixtures too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections, models, router
from django.db.models import signals

from occ.exceptions import Conflict
from occ.fields import get_version
from occ.signals import conflict_detected

T = TypeVar("T")

__all__ = [
    "Conflicts",
    "Session",
    "assert_conflict",
    "assert_no_conflict",
    "conflict_on_write",
    "race",
    "watch_conflicts",
    "write_behind",
]


def write_behind(instance: models.Model, **changes: Any) -> None:
    """Write the row of ``instance`` as a rival would: ``instance`` itself is stale afterwards.

    ``changes`` are the values to write, as for ``QuerySet.update``; without any only the version moves.

    Raises:
        LookupError: the row is gone.
    """
    model = type(instance)
    using = instance._state.db or router.db_for_write(model, instance=instance)
    field = model._occ_version_field  # type: ignore[attr-defined]
    rows = model._base_manager.using(using).filter(pk=instance.pk)
    if not rows.update(**(changes or {field.name: get_version(instance) + 1})):
        raise LookupError(f"{model._meta.label} {instance.pk!r} has no row to write behind.")


@contextmanager
def conflict_on_write(model: type[models.Model], *, nth: int = 1, times: int = 1) -> Iterator[None]:
    """Have the ``nth`` save or delete of ``model`` in this block meet a real conflict, and ``times - 1`` more.

    A rival's write is put between the read and the write, by ``pre_save`` and ``pre_delete``; what follows is the
    database's own doing. Inside an attempt of ``mutate`` or ``retry_on_conflict`` the rival's write is undone together
    with the attempt, so the next one finds the row as it was. Writes without these signals (``update``,
    ``bulk_update``) are not counted.
    """
    if nth < 1 or times < 1:
        raise ValueError(f"nth and times must be 1 or more, not {nth!r} and {times!r}.")
    writes = 0

    def interfere(sender: type[models.Model], instance: models.Model, **kwargs: Any) -> None:
        nonlocal writes
        if issubclass(sender, model) and not instance._state.adding and not kwargs.get("raw"):
            writes += 1
            if nth <= writes < nth + times:
                write_behind(instance)

    with _connected(signals.pre_save, interfere), _connected(signals.pre_delete, interfere):
        yield


class Conflicts(list[Conflict]):
    """The conflicts that were met, those that were retried included, oldest first."""


@contextmanager
def watch_conflicts(model: type[models.Model] | None = None) -> Iterator[Conflicts]:
    """Collect the conflicts of this block, of ``model`` alone if given, in all threads of this process."""
    met = Conflicts()

    def note(sender: type[models.Model], conflict: Conflict, **_: Any) -> None:
        if model is None or issubclass(sender, model):
            met.append(conflict)

    with _connected(conflict_detected, note):
        yield met


@contextmanager
def assert_conflict(model: type[models.Model] | None = None, *, pk: Any = None) -> Iterator[Conflicts]:
    """Assert that this block raises a ``Conflict``, about ``model`` and ``pk`` if given."""
    with watch_conflicts() as met:
        try:
            yield met
        except Conflict as conflict:
            _require(
                (model is None or issubclass(conflict.model, model)) and (pk is None or conflict.pk == pk),
                f"Expected a conflict about {_about(model, pk)}, met: {conflict}",
            )
            return
    _require(False, f"Expected a conflict about {_about(model, pk)}, but none was raised.")


@contextmanager
def assert_no_conflict(model: type[models.Model] | None = None) -> Iterator[None]:
    """Assert that no write in this block is refused, not even one that is then retried."""
    with watch_conflicts(model) as met:
        try:
            yield
        except Conflict as conflict:
            raise AssertionError(f"Expected no conflict, met: {conflict}") from conflict
    _require(not met, f"Expected no conflict, met {len(met)}: {'; '.join(map(str, met))}")


class Session:
    """A second database session: functions run one after another in one thread, on a connection of its own.

    For tests that may commit (Django's ``TransactionTestCase``, ``pytest.mark.django_db(transaction=True)``): inside
    a ``TestCase`` another connection sees nothing of what the test wrote. Use it as a context manager.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def run(self, function: Callable[[], T], *, timeout: float = 30.0) -> T:
        """Run ``function`` in the session; return its result or raise its exception here.

        Raises:
            TimeoutError: it takes longer than ``timeout`` seconds, as when it waits for a lock of the caller.
        """
        return self.start(function).result(timeout)

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Start ``function`` in the session, for one that will block; wait with ``.result(timeout)``."""
        return self._thread.submit(function)

    def close(self) -> None:
        """Close the session's connections and end its thread."""
        self._thread.submit(_close_connections).result(30.0)
        self._thread.shutdown()


def race(*functions: Callable[[], Any], timeout: float = 60.0) -> list[Any]:
    """Run the functions at once, each in a thread with connections of its own, and return their outcomes in order.

    An outcome is what the function returned or the exception that it raised. All start together. As for ``Session``
    the test must be one that commits.
    """
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], Any]) -> Any:
        try:
            start.wait(timeout)
            return function()
        except Exception as error:
            return error
        finally:
            _close_connections()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(timeout) for future in [pool.submit(run, function) for function in functions]]


def _close_connections() -> None:
    """Close this thread's connections, also those to SQLite in memory, which Django's ``close`` leaves open."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if connection.connection is not None:
            connection.connection.close()
            connection.connection = None


@contextmanager
def _connected(signal: signals.ModelSignal | Any, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


def _require(met: bool, message: str) -> None:
    if not met:
        raise AssertionError(message)


def _about(model: type[models.Model] | None, pk: Any) -> str:
    return f"{model._meta.label if model else 'any model'}{'' if pk is None else f' {pk!r}'}"

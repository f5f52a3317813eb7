"""What reconcilers raises: one sentence and a remedy each, with the facts as attributes.

Knows nothing of the rest of the package; every other module may import it.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.core.exceptions import ImproperlyConfigured

from occ.logs import one_line


class TerminalError(Exception):
    """Raise it in ``reconcile`` when trying again cannot help: the item is parked at once, with this as its reason.

    A parked item stays visible in the admin and in ``manage.py workqueue``. It runs again when its object changes or
    when a person requeues it.
    """


class InvalidReconciler(ImproperlyConfigured):
    """A class cannot be registered as it is."""


class UnknownReconciler(LookupError):
    """No reconciler of this name is registered in this process.

    Attributes:
        name: the name that was asked for.
        known: the registered names, sorted.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(
            f"No reconciler is named {name!r}; registered are: {listed}. Register it in an installed app's "
            "reconcilers.py; if it was renamed, move its items with 'manage.py workqueue rename OLD NEW'."
        )


class InvalidKey(ValueError):
    """A key cannot be a primary key of the reconciler's model.

    Attributes:
        reconciler: the name of the reconciler.
        key: what was given.
    """

    def __init__(self, reconciler: str, key: object, expected: str) -> None:
        self.reconciler = reconciler
        self.key = key
        super().__init__(f"{reconciler} has no key {key!r}: give {expected}.")


class LeaseLost(Exception):
    """The lease of this run ended and another worker may have the key: nothing of this run is written.

    Attributes:
        reconciler: the name of the reconciler.
        key: the key of the run.
    """

    def __init__(self, reconciler: str, key: str) -> None:
        self.reconciler = reconciler
        self.key = key
        super().__init__(
            f"{reconciler} {one_line(key)} ran longer than its lease and was given to another worker; nothing of this "
            "run was written. Raise the reconciler's lease, or call self.extend_lease() during long work."
        )

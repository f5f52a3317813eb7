"""Who is writing: a name that follows the work through threads of control, for field ownership and reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_LENGTH = 128  # as long as a Kubernetes field manager may be (apimachinery: FieldManagerMaxLength)
UNKNOWN_MANAGER = "unknown"

ambient_manager: ContextVar[str | None] = ContextVar("occ_field_manager", default=None)

# The name of the reconciler that runs here; set by package reconcilers, for reports.
running_reconciler: ContextVar[str] = ContextVar("occ_running_reconciler", default="")


@contextmanager
def field_manager(name: str) -> Iterator[None]:
    """Attribute the writes of this block to ``name``.

    Blocks nest, the innermost counts. The name follows ``async`` code and ``sync_to_async``, not new threads.

    Raises:
        ValueError: the name is empty, longer than 128 characters or holds characters that do not print.
    """
    check_manager_name(name)
    token = ambient_manager.set(name)
    try:
        yield
    finally:
        ambient_manager.reset(token)


def current_field_manager() -> str:
    """Return the name that the writes made here are attributed to, ``"unknown"`` when nobody gave one."""
    return ambient_manager.get() or UNKNOWN_MANAGER


def check_manager_name(name: str) -> None:
    """Raise ``ValueError`` unless ``name`` can name a field manager."""
    if not isinstance(name, str) or not name or len(name) > MAX_LENGTH or not name.isprintable():
        raise ValueError(f"A field manager's name must be 1 to {MAX_LENGTH} printable characters, not {name!r:.200}.")

"""Reconcilers of the test library's models, registered for one test at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from reconcilers import Reconciler, registry
from reconcilers.testing import registered

Register = Callable[[type[Reconciler]], type[Reconciler]]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register a reconciler until the test ends, as the only one: the reference project has some of its own."""
    with ExitStack() as stack:
        for known in registry.all_reconcilers():
            registry.unregister(type(known))
            stack.callback(registry.register, type(known))

        def for_this_test(cls: type[Reconciler]) -> type[Reconciler]:
            stack.enter_context(registered(cls))
            return cls

        yield for_this_test

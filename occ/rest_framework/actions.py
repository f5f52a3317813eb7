"""require_if_match: the guard of an ``@action``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from occ.rest_framework.writes import Write

F = TypeVar("F", bound=Callable[..., Any])


def require_if_match(method: F) -> F:
    """Demand If-Match, or the version in the body, of an ``@action`` that writes; put it below ``@action``.

    The object is read and checked before the method runs; its first ``self.get_object()`` returns that object. Saving
    it is guarded: the method need not catch ``Conflict``, which is answered 409.

    Raises:
        ImproperlyConfigured: when called, if the view has no ``OptimisticLockMixin`` or the request is no write.
    """

    @functools.wraps(method)
    def guarded(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        exchange = getattr(view, "_occ_exchange", None)
        if not isinstance(exchange, Write):
            raise ImproperlyConfigured(
                f"{type(view).__name__}.{method.__name__} has @require_if_match, which guards POST, PUT, PATCH and "
                "DELETE actions of views with OptimisticLockMixin. Add the mixin, or remove the decorator."
            )
        exchange.require()
        return method(view, request, *args, **kwargs)

    guarded.occ_requires_if_match = True  # type: ignore[attr-defined]  # for openapi
    return guarded  # type: ignore[return-value]

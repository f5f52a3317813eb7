"""Forms and formsets as the admin makes them, with the token and the checks of ``occ.forms`` added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from occ.forms import OptimisticLockFormMixin


def guarded_form(form: type[forms.BaseModelForm[Any]], options: Mapping[str, Any]) -> type[Any]:
    """Return a subclass of a form class that carries the token.

    The class is made without the metaclass of model forms running again: the fields are inherited as they are, and
    the ModelAdmin is not asked for every one of them a second time.
    """
    bases = (form,) if issubclass(form, OptimisticLockFormMixin) else (OptimisticLockFormMixin, form)
    return type.__new__(type(form), form.__name__, bases, {"__module__": form.__module__, **options})

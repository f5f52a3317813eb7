"""System checks of every admin site: mixins in the wrong order, on the wrong model, without their other half."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.admin.options import BaseModelAdmin
from django.contrib.admin.sites import all_sites
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import FieldDoesNotExist

from occ.admin.options import OptimisticLockAdminMixin, OptimisticLockInlineMixin
from occ.fields import version_field


@register(Tags.admin)
def check_admins(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check every registered ModelAdmin and its inlines."""
    messages: list[CheckMessage] = []
    for site in all_sites:
        for model, model_admin in site._registry.items():
            if app_configs is None or model._meta.app_config in app_configs:
                messages += _check_admin(model_admin)
    return messages


def _check_admin(model_admin: Any) -> Iterator[CheckMessage]:
    guarded = isinstance(model_admin, OptimisticLockAdminMixin)
    if guarded:
        yield from _check_options(model_admin, OptimisticLockAdminMixin)
        if not apps.is_installed("occ"):
            yield Error(
                f"{type(model_admin).__name__} uses OptimisticLockAdminMixin, but the app 'occ' is not installed.",
                hint="Add 'occ' to INSTALLED_APPS: its templates and static files make the conflict pages.",
                obj=type(model_admin),
                id="occ.E010",
            )
    elif version_field(model_admin.model) is not None:
        yield _not_guarded(model_admin, "OptimisticLockAdminMixin", "ModelAdmin")
    for inline in model_admin.inlines:
        if issubclass(inline, OptimisticLockInlineMixin):
            yield from _check_options(inline, OptimisticLockInlineMixin)
            if not guarded:
                yield Error(
                    f"{inline.__name__} uses OptimisticLockInlineMixin, but {type(model_admin).__name__} does not use "
                    "OptimisticLockAdminMixin, which shows the conflicts of its rows.",
                    hint="Put OptimisticLockAdminMixin left of the ModelAdmin.",
                    obj=type(model_admin),
                    id="occ.E013",
                )
        elif guarded and version_field(inline.model) is not None:
            yield _not_guarded(inline, "OptimisticLockInlineMixin", "inline class")


def _check_options(options: Any, mixin: type[Any]) -> Iterator[CheckMessage]:
    cls = options if isinstance(options, type) else type(options)
    overtaking = [
        base
        for base in cls.__mro__[: cls.__mro__.index(mixin)]
        if issubclass(base, BaseModelAdmin) and not issubclass(base, mixin)
    ]
    if overtaking:
        yield Error(
            f"{mixin.__name__} must stand left of {overtaking[0].__name__} in the bases of {cls.__name__}: as it is, "
            "nothing is checked.",
            hint=f"class {cls.__name__}({mixin.__name__}, {overtaking[0].__name__}): ...",
            obj=cls,
            id="occ.E011",
        )
    if version_field(options.model) is None:
        yield Error(
            f"{cls.__name__} uses {mixin.__name__}, but {options.model._meta.label} has no VersionField.",
            hint="Derive the model from occ.models.OptimisticLockModel, or leave the mixin out.",
            obj=cls,
            id="occ.E012",
        )
    if options.occ_conflict not in ("ask", "merge"):
        yield Error(
            f'occ_conflict of {cls.__name__} must be "ask" or "merge", not {options.occ_conflict!r}.',
            obj=cls,
            id="occ.E014",
        )
    for name in _unknown_fields(options):
        yield Error(
            f"occ_merge_groups or occ_masked_fields of {cls.__name__} names {name!r}, which "
            f"{options.model._meta.label} has not.",
            obj=cls,
            id="occ.E015",
        )


def _unknown_fields(options: Any) -> Iterable[str]:
    for name in [name for group in options.occ_merge_groups for name in group] + list(options.occ_masked_fields):
        try:
            options.model._meta.get_field(name)
        except FieldDoesNotExist:
            yield name


def _not_guarded(options: Any, mixin: str, base: str) -> CheckMessage:
    cls = options if isinstance(options, type) else type(options)
    return Warning(
        f"{cls.__name__} edits {options.model._meta.label} without {mixin}: a form saved from an old page takes back "
        "what others saved meanwhile.",
        hint=f"Put occ.admin.{mixin} left of the {base}.",
        obj=cls,
        id="occ.W010",
    )

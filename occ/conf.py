"""The ``OCC`` settings: one documented property each, read when used."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured


class Settings:
    """The values of one dict in the settings. A subclass has a property for each, and says how the dict is called."""

    setting: ClassVar[str]

    def names(self) -> list[str]:
        """Return the names that the dict may have."""
        return sorted(name for name in dir(type(self)) if name.isupper())

    def wrong(self) -> list[str]:
        """Say of each wrong value what is wrong with it."""
        found = []
        for name in self.names():
            try:
                getattr(self, name)
            except ImproperlyConfigured as error:
                found.append(str(error))
        return list(dict.fromkeys(found))

    def unknown(self) -> list[str]:
        """Return the names in the dict that nothing reads."""
        configured = getattr(django_settings, self.setting, {})
        return [str(name) for name in configured if name not in self.names()] if isinstance(configured, dict) else []

    def _get(self, name: str, default: Any) -> Any:
        configured = getattr(django_settings, self.setting, {})
        if not isinstance(configured, dict):
            raise ImproperlyConfigured(f"The setting {self.setting} must be a dict, not {type(configured).__name__}.")
        return configured.get(name, default)


class OccSettings(Settings):
    """The values of ``settings.OCC``, with their defaults. A value of the wrong kind is ``ImproperlyConfigured``."""

    setting = "OCC"

    @property
    def STALE_STATUS(self) -> Literal[409, 412]:
        """HTTP status of a stale ``If-Match``: 409 (Kubernetes, AIP-154; the default) or 412 (RFC 9110, 13.1.1)."""
        value: Literal[409, 412] = self._one_of("STALE_STATUS", 409, (409, 412))
        return value

    @property
    def REQUIRE_IF_MATCH(self) -> bool:
        """Whether an API write without a version is refused with 428 (RFC 6585, 3). Default True."""
        return bool(self._one_of("REQUIRE_IF_MATCH", True, (True, False)))

    @property
    def WEAK_IF_MATCH(self) -> Literal["accept", "reject"]:
        """What to do with a weak or suffixed tag in ``If-Match``; ``"accept"`` since compressing proxies make them."""
        value: Literal["accept", "reject"] = self._one_of("WEAK_IF_MATCH", "accept", ("accept", "reject"))
        return value

    @property
    def CONFLICT_WARN(self) -> float:
        """The share of conflicting writes, 0 to 1, above which contention is reported. Default 0.05."""
        value = self._get("CONFLICT_WARN", 0.05)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ImproperlyConfigured(f'OCC["CONFLICT_WARN"] must be a number from 0 to 1, not {value!r}.')
        return float(value)

    @property
    def CONFLICT_SAMPLES(self) -> int:
        """How many refused writes per model and flush ``occ.contention`` compares with the row. Default 20; 0: none."""
        value = self._get("CONFLICT_SAMPLES", 20)
        if type(value) is not int or value < 0:
            raise ImproperlyConfigured(f'OCC["CONFLICT_SAMPLES"] must be a whole number, 0 or more, not {value!r}.')
        return value

    @property
    def FLUSH_SECONDS(self) -> float:
        """How often a process stores what ``occ.contention`` counted, in seconds. Default 5; 0: when it ends."""
        value = self._get("FLUSH_SECONDS", 5)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
            raise ImproperlyConfigured(f'OCC["FLUSH_SECONDS"] must be a number from 0 to 3600, not {value!r}.')
        return float(value)

    def _one_of(self, name: str, default: Any, allowed: tuple[Any, ...]) -> Any:
        value = self._get(name, default)
        if value is default:
            return value
        if not any(value is item or (type(value) is type(item) and value == item) for item in allowed):
            raise ImproperlyConfigured(f'OCC["{name}"] must be one of {", ".join(map(repr, allowed))}, not {value!r}.')
        return value


occ_settings = OccSettings()

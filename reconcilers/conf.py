"""The ``RECONCILERS`` settings: one documented property each, read when used."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from occ.conf import Settings


class ReconcilerSettings(Settings):
    """The values of ``settings.RECONCILERS``, with their defaults. A wrong value is ``ImproperlyConfigured``."""

    setting = "RECONCILERS"

    @property
    def NUDGE(self) -> bool:
        """Whether a commit wakes a Celery worker at once. Default True; False leaves it to whoever sweeps or polls."""
        value = self._get("NUDGE", True)
        if not isinstance(value, bool):
            raise ImproperlyConfigured(f'RECONCILERS["NUDGE"] must be True or False, not {value!r}.')
        return value

    @property
    def NUDGE_WINDOW(self) -> int:
        """How many due items of one Celery queue may have a message waiting in the broker. Default 500."""
        return int(self._number("NUDGE_WINDOW", 500, least=1))

    @property
    def NUDGE_AGAIN_SECONDS(self) -> float:
        """After how long a message that nobody acted upon is taken for lost and sent again. Default 15."""
        return self._number("NUDGE_AGAIN_SECONDS", 15.0, least=0.1)

    @property
    def SWEEP_SECONDS(self) -> float:
        """How often due work is looked for, by Celery beat and by ``runreconcilers``. Default 1."""
        return self._number("SWEEP_SECONDS", 1.0, least=0.05)

    @property
    def SCAN_SECONDS(self) -> float:
        """How often each model is compared with its items, to find writes that no signal told of. Default 3600."""
        return self._number("SCAN_SECONDS", 3600.0, least=1)

    @property
    def LEASE_SECONDS(self) -> float:
        """How long a claim outlives a worker that died, for reconcilers that set no ``lease``. Default 300."""
        return self._number("LEASE_SECONDS", 300.0, least=0.1)

    def _number(self, name: str, default: float, *, least: float) -> float:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise ImproperlyConfigured(f'RECONCILERS["{name}"] must be a number, {least:g} or more, not {value!r}.')
        return value


reconciler_settings = ReconcilerSettings()


def celery_beat_schedule() -> dict[str, dict[str, Any]]:
    """Return the entries that Celery beat needs: ``app.conf.beat_schedule = {**celery_beat_schedule(), ...}``.

    A sweep that no worker took in time is dropped by the broker, so that sweeps do not pile up while no worker runs.
    """
    seconds = reconciler_settings.SWEEP_SECONDS
    return {
        "reconcilers.sweep": {
            "task": "reconcilers.sweep",
            "schedule": seconds,
            "options": {"expires": max(10.0, 5 * seconds), "ignore_result": True},
        }
    }

"""How a new template reaches all replicas, a few at a time: the rule of the Kubernetes Deployment controller.

A pure policy: called by the reconciler ``Rollout`` and by the demo, knows neither Django nor a clock.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHARE = 4  # a quarter of the replicas may be extra, and a quarter missing: Kubernetes' 25 % defaults


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a rollout is.

    Attributes:
        template_hash: the template that ``updated`` counts.
        updated: ready replicas that run that template.
        ready: all ready replicas, those with an older template included.
    """

    template_hash: str
    updated: int
    ready: int


def template_hash(image: str, template: Mapping[str, Any]) -> str:
    """Return the short name of what a replica runs: equal content, equal hash, whatever the order of its keys."""
    content = json.dumps({"image": image, "template": template}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def limits(replicas: int) -> tuple[int, int]:
    """Return how many replicas may be extra and how many missing during a rollout (maxSurge, maxUnavailable).

    A quarter, extra rounded up and missing rounded down; never both 0, or nothing could ever move.
    """
    surge, unavailable = -(-replicas // SHARE), replicas // SHARE
    return (surge, unavailable) if surge or unavailable else (0, 1)


def next_step(progress: Progress, *, template_hash: str, replicas: int) -> Progress:
    """Return the progress after one more step; an equal one when the rollout is complete.

    A step starts new replicas up to the surge limit and, once they are ready, ends old ones down to the
    availability limit. So at every point at least ``replicas - unavailable`` of those that were ready still are, and
    at most ``replicas + surge`` run.
    """
    surge, unavailable = limits(replicas)
    ready = progress.ready
    updated = progress.updated if progress.template_hash == template_hash else 0

    started = max(0, min(replicas + surge - ready, replicas - updated))
    updated += started
    ready += started

    ended = max(0, min(ready - updated, ready - (replicas - unavailable)))
    ready -= ended

    if ready == updated and updated > replicas:
        ready = updated = replicas
    return Progress(template_hash=template_hash, updated=updated, ready=ready)

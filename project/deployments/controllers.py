"""Both policies applied to a deployment in memory; whoever calls decides when, and how it is written.

A paused deployment is the callers' to leave alone. Called by the reconcilers on guarded rows, and by the demo on
unguarded ones and for the story of act three.
"""

from datetime import datetime, timedelta

from project.deployments import autoscaler, rollout
from project.deployments.models import Workload

STEP = timedelta(milliseconds=500)  # how long replicas take to become ready


def scale(workload: Workload) -> bool:
    """Give the deployment the replicas that its load needs; return whether that changed anything."""
    wanted = autoscaler.desired_replicas(
        replicas=workload.replicas,
        load=workload.observed_load,
        target=workload.target_load,
        minimum=workload.min_replicas,
        maximum=workload.max_replicas,
    )
    if wanted == workload.replicas:
        return False
    workload.replicas = wanted
    workload.scalings += 1
    return True


def roll(workload: Workload, *, now: datetime) -> bool:
    """Move the rollout one step if it is time for one; return whether that changed anything."""
    before = _progress(workload)
    after = _next(workload)
    if after == before or time_to_next_step(workload, now=now):
        return False
    if after.template_hash != before.template_hash:
        workload.revision += 1
    workload.template_hash = after.template_hash
    workload.updated_replicas = after.updated
    workload.ready_replicas = after.ready
    workload.stepped_at = now
    return True


def time_to_next_step(workload: Workload, *, now: datetime) -> timedelta | None:
    """Return how long the rollout has to wait until its next step, or None when there is no step to wait for."""
    if rolled_out(workload):
        return None
    if workload.stepped_at is None:
        return timedelta(0)
    return max(timedelta(0), workload.stepped_at + STEP - now)


def rolled_out(workload: Workload) -> bool:
    """Tell whether every wanted replica, and no other, is ready with the newest template."""
    return _next(workload) == _progress(workload)


def has_newest_template(workload: Workload) -> bool:
    """Tell whether the rollout is of what image and template say now."""
    return workload.template_hash == rollout.template_hash(workload.image, workload.template)


def settled(workload: Workload) -> bool:
    """Tell whether neither controller would change anything any more."""
    wanted = autoscaler.desired_replicas(
        replicas=workload.replicas,
        load=workload.observed_load,
        target=workload.target_load,
        minimum=workload.min_replicas,
        maximum=workload.max_replicas,
    )
    return wanted == workload.replicas and rolled_out(workload)


def _progress(workload: Workload) -> rollout.Progress:
    return rollout.Progress(
        template_hash=workload.template_hash, updated=workload.updated_replicas, ready=workload.ready_replicas
    )


def _next(workload: Workload) -> rollout.Progress:
    wanted = rollout.template_hash(workload.image, workload.template)
    return rollout.next_step(_progress(workload), template_hash=wanted, replicas=workload.replicas)

"""Writers that use the ORM in their own process: ``mutate`` callers, and controllers for the unguarded fleet."""

import time
from typing import Any

from django.forms.models import model_to_dict
from django.utils import timezone

from occ.exceptions import Conflict
from project.deployments import controllers
from project.deployments.demo.events import What
from project.deployments.demo.writers import changes
from project.deployments.demo.writers.base import Accepted, Target, Writer
from project.deployments.models import Deployment, UnguardedDeployment, Workload


class MutateCaller(Writer):
    """Application code: ``Deployment.objects.mutate(pk, change)``; on the unguarded fleet get, change, ``save()``."""

    kind = "mutate caller"

    def change(self, target: Target, name: str) -> None:
        """Make one change. ``mutate`` sees to the retries: each run of the function is an attempt."""
        if target.guarded:
            self._mutate(target, name)
        else:
            self._get_and_save(target, name)

    def _mutate(self, target: Target, name: str) -> None:
        started = time.perf_counter()
        attempts = 0

        def change(deployment: Deployment) -> None:
            nonlocal attempts
            attempts += 1
            self._change(deployment)

        try:
            saved = Deployment.objects.mutate(target.deployments[name], change)
        except Conflict:
            self.tell(What.GAVE_UP, target, name)
            conflicts = attempts
        else:
            accepted = Accepted(counter=self.name, version=saved.version)
            seconds = time.perf_counter() - started
            self.tell_accepted(target, name, accepted, seconds=seconds, retries=attempts - 1)
            conflicts = attempts - 1
        for _ in range(conflicts):
            self.tell(What.CONFLICT, target, name)

    def _get_and_save(self, target: Target, name: str) -> None:
        started = time.perf_counter()
        deployment = UnguardedDeployment.objects.get(pk=target.deployments[name])
        self._change(deployment)
        deployment.save()
        accepted = Accepted(counter=self.name)
        self.tell_accepted(target, name, accepted, seconds=time.perf_counter() - started, retries=0)

    def _change(self, deployment: Workload) -> None:
        fields: dict[str, Any] = model_to_dict(deployment)
        changes.make_one(fields, self.name, self.random)
        self.think()
        for name in ("annotations", "observed_load", "image", "template"):
            setattr(deployment, name, fields[name])


class UnguardedAutoscaler(Writer):
    """The autoscaler of the unguarded fleet: the same policy, then a plain ``save()``."""

    kind = "Autoscaler"

    def writes_to(self, target: Target) -> bool:
        """The guarded fleet has real reconcilers."""
        return not target.guarded

    def change(self, target: Target, name: str) -> None:
        """Look at one deployment; most need nothing."""
        started = time.perf_counter()
        deployment = UnguardedDeployment.objects.get(pk=target.deployments[name])
        counter = None if deployment.paused else self.decide(deployment)
        if counter is None:
            return
        self.think()
        deployment.save()
        seconds = time.perf_counter() - started
        self.tell_accepted(target, name, Accepted(counter=counter), seconds=seconds, retries=0)

    def decide(self, deployment: UnguardedDeployment) -> str | None:
        """Change the deployment in memory; return the counter that this raised, None when nothing is to do."""
        return "scalings" if controllers.scale(deployment) else None


class UnguardedRollout(UnguardedAutoscaler):
    """The rollout controller of the unguarded fleet."""

    kind = "Rollout"

    def decide(self, deployment: UnguardedDeployment) -> str | None:
        """Move the rollout one step if it is time."""
        revision = deployment.revision
        if not controllers.roll(deployment, now=timezone.now()):
            return None
        return "revision" if deployment.revision != revision else ""

"""The two controllers that race for the same rows, and the clerk that is the only writer of its own.

Each changes its own columns of a private copy, nothing more. The two note every change they make in the journal; the
entry is in the transaction of the guarded write and goes when that is refused.
"""

from django.utils import timezone

from project.deployments import controllers
from project.deployments.models import Deployment, JournalEntry, QueuedDeployment, Request
from reconcilers import Reconciler, Result, register


@register
class Autoscaler(Reconciler):
    """Sets ``replicas`` from the observed load."""

    model = Deployment

    def reconcile(self, deployment: Deployment) -> Result | None:
        """Scale, if the load asks for it."""
        if not deployment.paused and controllers.scale(deployment):
            journal(deployment, writer="Autoscaler", counter="scalings")
        return None


@register
class Rollout(Reconciler):
    """Writes the hash of the newest template and brings it to the replicas, step by step."""

    model = Deployment
    clock = staticmethod(timezone.now)

    def reconcile(self, deployment: Deployment) -> Result | None:
        """Move one step if it is time; come back for the next."""
        if deployment.paused:
            return None
        now = self.clock()
        hash_before = deployment.template_hash
        if controllers.roll(deployment, now=now):
            new_template = deployment.template_hash != hash_before
            journal(deployment, writer="Rollout", counter="revision" if new_template else "")
        wait = controllers.time_to_next_step(deployment, now=now)
        return None if wait is None else Result(requeue_after=wait)


@register
class Clerk(Reconciler):
    """Does what was requested, whoever asked: requests are taken off in the transaction of the write."""

    model = QueuedDeployment
    resync = None

    def reconcile(self, deployment: QueuedDeployment) -> None:
        """Carry out the requests that are there by now, in their order."""
        requests = list(Request.objects.filter(deployment_pk=deployment.pk))
        for request in requests:
            setattr(deployment, request.counter, getattr(deployment, request.counter) + 1)
        Request.objects.filter(pk__in=[request.pk for request in requests]).delete()


def journal(deployment: Deployment, *, writer: str, counter: str) -> None:
    """Record the change about to be written, which becomes the version after the one that was read."""
    JournalEntry.objects.create(
        fleet=JournalEntry.Fleet.GUARDED,
        deployment_pk=deployment.pk,
        writer=writer,
        counter=counter,
        version=deployment.version + 1,
    )

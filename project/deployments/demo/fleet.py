"""Sets the stage: the sample fleet, its unguarded copy, an empty journal and a login, in a migrated database."""

import secrets
from collections.abc import Iterable, Iterator

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction
from django.forms.models import model_to_dict

import reconcilers
from project.deployments.demo.events import Event, What
from project.deployments.models import (
    Deployment,
    JournalEntry,
    OwnedDeployment,
    QueuedDeployment,
    Request,
    UnguardedDeployment,
)
from project.deployments.reconcilers import Autoscaler, Rollout
from reconcilers.models import WorkItem

USERNAME = "demo"


def prepare(count: int) -> None:
    """Migrate, and replace what an earlier demo left in this database by ``count`` fresh deployments."""
    call_command("migrate", verbosity=0, interactive=False)
    with transaction.atomic():
        for model in (Deployment, OwnedDeployment, QueuedDeployment, Request, UnguardedDeployment, JournalEntry):
            model._default_manager.all().delete()
        call_command("loaddata", "fleet", verbosity=0)
        samples = list(Deployment.objects.order_by("pk"))
        Deployment.objects.filter(pk__in=[sample.pk for sample in samples[count:]]).delete()
        for copy in _copies(samples, count - len(samples)):
            copy.save()
        UnguardedDeployment.objects.bulk_create(
            UnguardedDeployment(**_spec(deployment)) for deployment in Deployment.objects.order_by("pk")
        )
        # Only now: deleting asks for the reconcilers too, of rows that are gone.
        WorkItem.objects.filter(reconciler__in=[Autoscaler.name, Rollout.name]).delete()
        for deployment in Deployment.objects.order_by("pk"):
            reconcilers.enqueue(Autoscaler, deployment.pk)
            reconcilers.enqueue(Rollout, deployment.pk)


def make_login() -> tuple[str, str]:
    """Create an administrator for this run; return name and password."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model()._default_manager.update_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True, "is_active": True}
    )
    user.set_password(password)
    user.save()
    return USERNAME, password


def record(events: Iterable[Event]) -> None:
    """Enter what the writers told of as accepted into the journal; the reconcilers have entered theirs."""
    JournalEntry.objects.bulk_create(
        (
            JournalEntry(
                fleet=event.fleet,
                deployment_pk=event.pk,
                writer=event.kind,
                counter=event.counter,
                version=event.version,
            )
            for event in events
            if event.what is What.ACCEPTED
        ),
        batch_size=500,
    )


def _copies(samples: list[Deployment], count: int) -> Iterator[Deployment]:
    for number in range(max(0, count)):
        sample = samples[number % len(samples)]
        spec = _spec(sample)
        yield Deployment(**{**spec, "name": f"{sample.name}-{number // len(samples) + 2}"})


def _spec(deployment: Deployment) -> dict[str, object]:
    return model_to_dict(deployment, exclude=["id", "version"])

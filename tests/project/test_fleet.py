"""The stage is set the same way every time, whatever an earlier demo left behind."""

import pytest
from django.contrib.auth import authenticate

from project.deployments import controllers
from project.deployments.demo import fleet
from project.deployments.demo.events import Event, What
from project.deployments.models import Deployment, JournalEntry, UnguardedDeployment
from reconcilers.models import WorkItem

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("count", [1, 12, 30])
def test_as_many_deployments_as_wanted_each_with_its_unguarded_copy(count: int) -> None:
    fleet.prepare(count)

    guarded = list(Deployment.objects.values_list("name", "image", "replicas", "observed_load"))
    unguarded = list(UnguardedDeployment.objects.values_list("name", "image", "replicas", "observed_load"))
    assert len(guarded) == count
    assert unguarded == guarded
    assert set(Deployment.objects.values_list("version", flat=True)) == {1}
    assert WorkItem.objects.exclude(due_at=None).count() == 2 * count


def test_what_an_earlier_demo_left_is_gone() -> None:
    fleet.prepare(2)
    Deployment.objects.mutate(Deployment.objects.earliest("pk").pk, lambda d: setattr(d, "notes", "old"))
    JournalEntry.objects.create(fleet="guarded", deployment_pk=1, writer="Rollout")

    fleet.prepare(2)

    assert set(Deployment.objects.values_list("version", "notes")) == {(1, "")}
    assert not JournalEntry.objects.exists()


def test_the_sample_fleet_is_one_that_the_controllers_can_bring_to_rest() -> None:
    fleet.prepare(12)

    for deployment in Deployment.objects.all():
        deployment.full_clean()
        controllers.scale(deployment)
        assert deployment.min_replicas <= deployment.replicas <= deployment.max_replicas


def test_each_run_has_a_login_of_its_own() -> None:
    first = fleet.make_login()
    second = fleet.make_login()

    assert first[0] == second[0]
    assert authenticate(username=first[0], password=first[1]) is None
    user = authenticate(username=second[0], password=second[1])
    assert user is not None and user.is_superuser


def test_what_was_accepted_and_nothing_else_is_entered_into_the_journal() -> None:
    facts = {"kind": "HTTP client", "writer": "http-1", "fleet": "guarded", "pk": 7}
    accepted = Event(what=What.ACCEPTED, counter="http-1", version=3, **facts)  # type: ignore[arg-type]
    refused = Event(what=What.CONFLICT, **facts)  # type: ignore[arg-type]

    fleet.record([accepted, refused])

    entries = JournalEntry.objects.values_list("fleet", "deployment_pk", "writer", "counter", "version")
    assert list(entries) == [("guarded", 7, "HTTP client", "http-1", 3)]

"""The two racers as units: each changes its own columns, notes what it changed, and comes to rest."""

import datetime as dt
from typing import Any

import pytest

from project.deployments import controllers
from project.deployments.controllers import STEP
from project.deployments.models import Deployment, JournalEntry
from project.deployments.reconcilers import Autoscaler, Rollout
from project.deployments.rollout import template_hash
from reconcilers import Result
from reconcilers.controller import Outcome, turn
from reconcilers.models import WorkItem
from tests.kit.chance import FakeClock

pytestmark = pytest.mark.django_db

STATUS = ("replicas", "scalings", "template_hash", "updated_replicas", "ready_replicas", "revision")


def deployment(**fields: Any) -> Deployment:
    defaults = {"name": "cart", "image": "cart:1", "replicas": 3, "target_load": 100, "observed_load": 300}
    created: Deployment = Deployment.objects.create(**{**defaults, **fields})
    return created


def status(obj: Deployment) -> tuple[Any, ...]:
    return tuple(getattr(obj, name) for name in STATUS)


def entries() -> list[tuple[str, str, int | None]]:
    return list(JournalEntry.objects.values_list("writer", "counter", "version"))


class TestAutoscaler:
    def test_the_load_sets_the_replicas_and_nothing_else(self) -> None:
        cart = deployment(observed_load=500)

        outcome = turn(Autoscaler, cart.pk)

        cart.refresh_from_db()
        assert outcome is Outcome.DONE
        assert status(cart) == (5, 1, "", 0, 0, 0)
        assert cart.version == 2
        assert entries() == [("Autoscaler", "scalings", 2)]

    def test_a_load_that_fits_writes_nothing(self) -> None:
        cart = deployment(observed_load=310)

        turn(Autoscaler, cart.pk)

        cart.refresh_from_db()
        assert (cart.version, cart.replicas, entries()) == (1, 3, [])

    def test_a_paused_deployment_is_left_alone(self) -> None:
        cart = deployment(observed_load=500, paused=True)

        turn(Autoscaler, cart.pk)

        cart.refresh_from_db()
        assert (cart.version, cart.replicas, entries()) == (1, 3, [])


class TestRollout:
    def test_the_first_step_writes_the_hash_and_starts_the_replicas(self) -> None:
        cart = deployment(template={"port": 80})

        turn(Rollout, cart.pk)

        cart.refresh_from_db()
        assert status(cart) == (3, 0, template_hash("cart:1", {"port": 80}), 3, 3, 1)
        assert entries() == [("Rollout", "revision", 2)]

    def test_a_new_template_is_walked_one_step_at_a_time(self, fake_clock: FakeClock) -> None:
        cart = deployment(replicas=8, template_hash="old", updated_replicas=8, ready_replicas=8, revision=4)
        rollout = Rollout()
        rollout.clock = fake_clock.now  # type: ignore[assignment]
        walked = []

        while (result := rollout.reconcile(cart)) is not None:
            walked.append((cart.updated_replicas, cart.ready_replicas, result))
            fake_clock.advance(STEP)

        assert walked == [(2, 6, Result(requeue_after=STEP)), (6, 6, Result(requeue_after=STEP))]
        assert status(cart) == (8, 0, template_hash("cart:1", {}), 8, 8, 5)
        assert [counter for _, counter, _ in entries()] == ["revision", "", ""]

    def test_run_too_early_it_changes_nothing_and_waits_for_the_rest_of_the_time(self, fake_clock: FakeClock) -> None:
        cart = deployment(replicas=8, template_hash="old", updated_replicas=8, ready_replicas=8)
        rollout = Rollout()
        rollout.clock = fake_clock.now  # type: ignore[assignment]
        rollout.reconcile(cart)
        before = status(cart)

        fake_clock.advance(STEP / 5)
        result = rollout.reconcile(cart)

        assert status(cart) == before
        assert result == Result(requeue_after=STEP - STEP / 5)

    def test_a_complete_rollout_writes_nothing_and_does_not_come_back(self) -> None:
        cart = deployment()
        turn(Rollout, cart.pk)
        cart.refresh_from_db()
        version = cart.version

        result = Rollout().reconcile(cart)

        assert (result, cart.version) == (None, version)

    def test_a_paused_deployment_is_left_alone_and_not_asked_for_again(self) -> None:
        cart = deployment(paused=True)

        result = Rollout().reconcile(cart)

        assert (result, status(cart), entries()) == (None, (3, 0, "", 0, 0, 0), [])


def test_a_refused_write_leaves_no_entry_in_the_journal() -> None:
    cart = deployment(observed_load=500)

    class Overtaken(Autoscaler):
        name = "Overtaken"
        conflict_retries = 0

        def reconcile(self, deployment: Deployment) -> Result | None:
            result = super().reconcile(deployment)
            Deployment.objects.filter(pk=deployment.pk).update(notes="faster")
            return result

    from reconcilers import enqueue
    from reconcilers.testing import registered

    with registered(Overtaken):
        enqueue(Overtaken, cart.pk)
        outcome = turn(Overtaken, cart.pk)

    cart.refresh_from_db()
    assert outcome is Outcome.CONFLICT
    assert (cart.replicas, entries()) == (3, [])


def test_saving_a_deployment_asks_for_both_reconcilers_in_the_same_transaction() -> None:
    cart = deployment()

    asked_for = sorted(WorkItem.objects.filter(key=str(cart.pk)).values_list("reconciler", flat=True))

    assert asked_for == ["Autoscaler", "Rollout"]


def test_both_together_settle_a_deployment_at_its_newest_version() -> None:
    cart = deployment(observed_load=700, image="cart:2")

    for reconciler in (Autoscaler, Rollout, Autoscaler, Rollout):
        turn(reconciler, cart.pk)

    cart.refresh_from_db()
    observed = set(WorkItem.objects.filter(key=str(cart.pk)).values_list("observed_version", flat=True))
    assert controllers.settled(cart)
    assert observed == {cart.version}


def test_settled_means_that_neither_controller_has_anything_to_do() -> None:
    cart = Deployment(image="cart:1", replicas=2, target_load=100, observed_load=200, max_replicas=9)
    now = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)

    before = controllers.settled(cart)
    controllers.roll(cart, now=now)
    after = controllers.settled(cart)
    cart.observed_load = 900

    assert (before, after, controllers.settled(cart)) == (False, True, False)

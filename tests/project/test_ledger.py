"""The ledger: it finds a lost update where one was planted, and nothing where nothing is wrong."""

import pytest
from django.db import connection

from project.deployments.demo import ledger
from project.deployments.demo.ledger import Audit, Entry, Row, audit
from project.deployments.models import Deployment, JournalEntry, UnguardedDeployment


def entries(*changes: tuple[int, str, str]) -> list[Entry]:
    """Return journal entries: key, writer, counter."""
    return [Entry(pk=pk, writer=writer, counter=counter, version=None) for pk, writer, counter in changes]


def test_rows_that_hold_every_accepted_change_are_clean() -> None:
    rows = [Row(pk=1, version=4, counters={"ann": 2, "notes": 1}), Row(pk=2, version=1, counters={"notes": 0})]

    found = audit(rows, entries((1, "client", "ann"), (1, "admin", "notes"), (1, "client", "ann")))

    assert found == Audit(accepted=3, lost=0, lost_by_writer={}, unrecorded=0, same_version=0)
    assert found.clean


def test_a_change_that_a_later_write_took_away_is_lost_and_charged_to_its_writer() -> None:
    rows = [Row(pk=1, version=None, counters={"ann": 1, "bob": 1})]

    found = audit(rows, entries((1, "client", "ann"), (1, "client", "ann"), (1, "caller", "bob")))

    assert found == Audit(accepted=3, lost=1, lost_by_writer={"client": 1}, unrecorded=0, same_version=0)
    assert not found.clean


def test_a_counter_that_is_gone_altogether_is_lost_altogether() -> None:
    rows = [Row(pk=1, version=None, counters={})]

    found = audit(rows, entries((1, "client", "ann"), (1, "client", "ann")))

    assert found.lost == 2


def test_losses_of_one_row_are_not_made_up_by_another() -> None:
    rows = [Row(pk=1, version=None, counters={"ann": 0}), Row(pk=2, version=None, counters={"ann": 2})]

    found = audit(rows, entries((1, "client", "ann"), (2, "client", "ann")))

    assert found == Audit(accepted=2, lost=1, lost_by_writer={"client": 1}, unrecorded=1, same_version=0)


def test_two_accepted_writes_of_one_version_are_found_though_no_counter_shows_them() -> None:
    rows = [Row(pk=1, version=3, counters={})]

    found = audit(rows, entries((1, "rollout", ""), (1, "rollout", ""), (1, "rollout", "")))

    assert found == Audit(accepted=3, lost=0, lost_by_writer={}, unrecorded=0, same_version=1)


def test_a_version_that_no_entry_tells_of_is_found() -> None:
    rows = [Row(pk=1, version=3, counters={})]

    found = audit(rows, entries((1, "rollout", "")))

    assert found == Audit(accepted=1, lost=0, lost_by_writer={}, unrecorded=1, same_version=0)


@pytest.mark.django_db
def test_a_lost_update_planted_in_an_unguarded_row_is_found_in_the_database() -> None:
    created = UnguardedDeployment.objects.create(name="cart", image="cart:1")
    for writer in ("ann", "bob"):
        JournalEntry.objects.create(fleet="unguarded", deployment_pk=created.pk, writer="client", counter=writer)
    anns, bobs = (UnguardedDeployment.objects.get(pk=created.pk) for _ in range(2))
    anns.annotations["ann"] = 1
    anns.save()
    bobs.annotations["bob"] = 1
    bobs.save()

    found = ledger.audit_fleet(UnguardedDeployment, JournalEntry.Fleet.UNGUARDED)

    assert found == Audit(accepted=2, lost=1, lost_by_writer={"client": 1}, unrecorded=0, same_version=0)


@pytest.mark.django_db
def test_an_overwrite_behind_the_versions_back_is_found_in_a_guarded_row() -> None:
    deployment = Deployment.objects.create(name="cart", image="cart:1")
    deployment.annotations["ann"] = 1
    deployment.save()
    JournalEntry.objects.create(fleet="guarded", deployment_pk=deployment.pk, writer="client", counter="ann", version=2)
    clean = ledger.audit_fleet(Deployment, JournalEntry.Fleet.GUARDED)

    with connection.cursor() as cursor:
        cursor.execute("UPDATE deployments_deployment SET annotations = '{}' WHERE id = %s", [deployment.pk])
    found = ledger.audit_fleet(Deployment, JournalEntry.Fleet.GUARDED)

    assert clean.clean
    assert found == Audit(accepted=1, lost=1, lost_by_writer={"client": 1}, unrecorded=0, same_version=0)


@pytest.mark.django_db
def test_every_kind_of_counter_is_read_from_the_row() -> None:
    deployment = Deployment(
        name="cart", annotations={"http-1": 3, "owner": "shop"}, notes="Checked 2 times.", revision=4, scalings=5
    )

    assert ledger.counters(deployment) == {"http-1": 3, "notes": 2, "revision": 4, "scalings": 5}

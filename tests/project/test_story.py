"""Act three really happens, with the version numbers that it tells."""

import pytest

from project.deployments.demo import story
from project.deployments.models import Deployment


@pytest.mark.django_db(transaction=True)
def test_two_controllers_read_42_one_wins_the_other_is_refused_reads_43_and_writes_44() -> None:
    told = story.play()

    assert (told.read, told.won, told.refused, told.written) == (42, 43, (42, 43), 44)
    assert told.nothing_lost
    assert sorted((line.who, line.what) for line in told.lines) == sorted(
        [
            ("Autoscaler", "reads version 42: 3 replicas."),
            ("Rollout", "reads version 42: 3 replicas."),
            (
                "Autoscaler",
                "500 requests/s, 100 for each replica: sets replicas from 3 to 5. Accepted: version 43.",
            ),
            (
                "Rollout",
                "writes template hash 8bfe2ec31358, expecting version 42. Refused: the row is at version 43.",
            ),
            ("Rollout", "reads version 43: 5 replicas."),
            (
                "Rollout",
                "decides again, with 5 replicas: writes template hash 8bfe2ec31358. Accepted: version 44.",
            ),
        ]
    )


@pytest.mark.django_db(transaction=True)
def test_the_deployment_is_left_to_the_real_controllers_afterwards() -> None:
    story.play()

    deployment = Deployment.objects.get(name=story.NAME)
    assert (deployment.paused, deployment.replicas, deployment.version) == (False, 5, 45)

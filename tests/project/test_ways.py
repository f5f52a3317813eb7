"""Act four: the same race in each way, for real."""

import pytest

from project.deployments.demo import ways
from project.deployments.models import Request

pytestmark = pytest.mark.django_db(transaction=True)


def test_only_the_unguarded_row_loses_anything_and_only_the_guarded_one_conflicts():
    raced = {way.name: way for way in ways.play()}

    assert list(raced) == ["unguarded", "guarded", "owned", "queued"]
    assert {way.writes for way in raced.values()} == {2 * ways.EACH}
    assert [name for name, way in raced.items() if way.lost and name != "unguarded"] == []
    assert [name for name, way in raced.items() if way.conflicts and name != "guarded"] == []
    assert Request.objects.count() == 0

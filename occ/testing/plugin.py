"""The helpers of ``occ.testing`` as pytest fixtures: ``pytest_plugins = ["occ.testing.plugin"]``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from occ.testing import Conflicts, Session, watch_conflicts


@pytest.fixture
def occ_conflicts() -> Iterator[Conflicts]:
    """The conflicts that the test has met so far, those that were retried included."""
    with watch_conflicts() as met:
        yield met


@pytest.fixture
def occ_second_session(transactional_db: None) -> Iterator[Session]:
    """A second database session; the test commits for real (pytest-django's ``transactional_db``)."""
    with Session() as session:
        yield session

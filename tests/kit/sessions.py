"""A second database session: another connection, in a thread of its own, that a test drives step by step."""

from collections.abc import Iterator

import pytest

from occ.testing import Session


@pytest.fixture
def second_session(transactional_db: None) -> Iterator[Session]:
    with Session() as session:
        yield session

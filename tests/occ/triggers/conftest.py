from collections.abc import Iterator

import pytest

from tests.triggers.scratch import Scratch


@pytest.fixture
def scratch(transactional_db: None) -> Iterator[Scratch]:
    app = Scratch()
    yield app
    app.drop_tables()

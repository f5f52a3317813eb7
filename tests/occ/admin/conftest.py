from collections.abc import Iterator

import pytest

from tests.library.models import Author, Book
from tests.occ.admin.editors import Editor


@pytest.fixture(autouse=True)
def admin_urls(settings: object) -> Iterator[None]:
    settings.ROOT_URLCONF = "tests.occ.admin.site"  # type: ignore[attr-defined]
    yield


@pytest.fixture
def ann(db: None) -> Editor:
    return Editor("ann", superuser=True)


@pytest.fixture
def bob(db: None) -> Editor:
    return Editor("bob", superuser=True)


@pytest.fixture
def book(db: None) -> Book:
    author = Author.objects.create(name="Ursula")
    return Book.objects.create(
        title="Book 1", stock=1, price="50.00", notes="Reprint planned\nfor spring.", author=author
    )

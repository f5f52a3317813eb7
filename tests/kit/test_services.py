"""What happens where a service is not here."""

import pytest

from . import services
from .services import Service


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> str:
    service = Service(title="Nonesuch", present=lambda: False, remedy="build one")
    monkeypatch.setitem(services.SERVICES, "nonesuch", service)
    return "nonesuch"


def test_a_missing_service_skips_and_says_how_to_get_it(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCC_REQUIRE_SERVICES", raising=False)

    with pytest.raises(pytest.skip.Exception, match="Nonesuch is not here: build one"):
        services.require(absent)


def test_a_missing_service_is_a_failure_where_services_are_required(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCC_REQUIRE_SERVICES", "1")

    with pytest.raises(pytest.fail.Exception, match="Nonesuch is not here: build one"):
        services.require(absent)

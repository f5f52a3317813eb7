"""The system check for projects whose API is called from other origins."""

from __future__ import annotations

from typing import Any

import pytest

from occ.checks import check_cors_headers


@pytest.fixture
def cors(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Settings as django-cors-headers leaves them, without the package."""
    from django.apps import apps

    installed = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name == "corsheaders" or installed(name))
    return settings


def test_what_browsers_would_hide_is_reported(cors: Any) -> None:
    assert [(message.id, message.hint) for message in check_cors_headers()] == [
        ("occ.W030", 'Add "etag" to CORS_EXPOSE_HEADERS.'),
        (
            "occ.W031",
            'Set CORS_ALLOW_HEADERS to (*corsheaders.defaults.default_headers, "if-match", "if-none-match").',
        ),
    ]


@pytest.mark.parametrize("allowed", [("If-Match", "if-none-match"), ["*"]])
def test_what_is_exposed_and_allowed_is_not(cors: Any, allowed: Any) -> None:
    cors.CORS_EXPOSE_HEADERS = ["ETag"]
    cors.CORS_ALLOW_HEADERS = allowed

    assert check_cors_headers() == []


def test_projects_without_django_cors_headers_are_left_alone() -> None:
    assert check_cors_headers() == []

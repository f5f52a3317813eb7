"""The OCC settings: read when used, wrong values named."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from occ.checks import check_settings as check_occ
from occ.conf import occ_settings
from reconcilers.checks import check_settings as check_reconcilers

DEFAULTS = {"STALE_STATUS": 409, "REQUIRE_IF_MATCH": True, "WEAK_IF_MATCH": "accept", "CONFLICT_WARN": 0.05}


def read() -> dict[str, object]:
    return {name: getattr(occ_settings, name) for name in DEFAULTS}


def test_defaults_apply_without_the_setting(settings):
    del settings.OCC

    assert read() == DEFAULTS


def test_values_are_read_when_used(settings):
    settings.OCC = {"STALE_STATUS": 412, "REQUIRE_IF_MATCH": False, "WEAK_IF_MATCH": "reject", "CONFLICT_WARN": 0.1}

    assert read() == settings.OCC


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("STALE_STATUS", 418),
        ("STALE_STATUS", "409"),
        ("STALE_STATUS", True),
        ("REQUIRE_IF_MATCH", "no"),
        ("REQUIRE_IF_MATCH", 0),
        ("WEAK_IF_MATCH", "maybe"),
        ("CONFLICT_WARN", 5),
        ("CONFLICT_WARN", "5%"),
    ],
)
def test_a_wrong_value_is_named(settings, name, wrong):
    settings.OCC = {name: wrong}

    with pytest.raises(ImproperlyConfigured, match=name):
        getattr(occ_settings, name)


def test_a_setting_that_is_no_dict_is_named(settings):
    settings.OCC = ["STALE_STATUS"]

    with pytest.raises(ImproperlyConfigured, match="OCC must be a dict, not list"):
        _ = occ_settings.STALE_STATUS


@pytest.mark.parametrize(
    ("setting", "value", "found"),
    [
        ("OCC", {"STALE_STATUS": 418, "FLUSH_SECONDS": 1}, {"occ.E060": 'OCC["STALE_STATUS"] must be one of 409, 412'}),
        ("OCC", {"STALE_STATE": 409}, {"occ.W060": "OCC['STALE_STATE'] is read by nothing."}),
        ("OCC", ["STALE_STATUS"], {"occ.E060": "The setting OCC must be a dict, not list."}),
        ("RECONCILERS", {"NUDGE": "no"}, {"reconcilers.E004": 'RECONCILERS["NUDGE"] must be True or False'}),
        ("RECONCILERS", {"SWEEPS": 1}, {"reconcilers.W005": "RECONCILERS['SWEEPS'] is read by nothing."}),
        ("RECONCILERS", {}, {}),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_by_a_check(settings, setting, value, found):
    setattr(settings, setting, value)

    messages = {message.id: message.msg for message in [*check_occ(None), *check_reconcilers(None)]}

    assert messages.keys() == found.keys()
    assert all(messages[number].startswith(text) for number, text in found.items())

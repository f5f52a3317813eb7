"""Settings of ``benchmarks.saves``: those of the tests, and the peers that are installed."""

from importlib.util import find_spec

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

PEERS = find_spec("concurrency") is not None
if PEERS:
    INSTALLED_APPS = [*INSTALLED_APPS, "concurrency", "benchmarks.peers"]

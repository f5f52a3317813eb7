"""Settings of the fault tests' worker processes: those of the kit, and the reconcilers of the workload."""

import os

from tests.kit.worker_settings import *  # noqa: F403
from tests.kit.worker_settings import INSTALLED_APPS, RECONCILERS

# The project's own reconcilers and app stay: a broker may carry both.
INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.workload"]

RECONCILERS = {
    **RECONCILERS,
    "NUDGE_AGAIN_SECONDS": float(os.environ.get("OCC_TEST_NUDGE_AGAIN_SECONDS", "2")),
}

"""Settings of the processes that tests start: the tests' own, on the databases of the test that started them."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS

for _alias, _name in json.loads(os.environ["OCC_TEST_DATABASES"]).items():
    DATABASES[_alias]["NAME"] = _name

INSTALLED_APPS = [*INSTALLED_APPS, "tests.kit.failpoints.FailpointsConfig"]

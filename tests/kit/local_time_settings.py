"""The settings of the tests' processes without time zone support, on database sessions that are far from UTC."""

from tests.kit.worker_settings import *  # noqa: F403
from tests.kit.worker_settings import DATABASES

USE_TZ = False
TIME_ZONE = "Asia/Kolkata"  # no whole number of hours ahead; Django sets it on PostgreSQL's sessions

for _database in DATABASES.values():
    if _database["ENGINE"].endswith("mysql"):
        _database["OPTIONS"]["init_command"] = "SET time_zone = '+05:30'"

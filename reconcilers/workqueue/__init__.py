"""The queue: a table of work items, each step on it one guarded statement.

``requests`` asks for runs, ``steps`` is what a worker does to an item, ``operate`` what a person does; ``sweeper``
wakes workers for what is due, ``scanner`` finds what nobody asked for, ``nudges`` wakes workers at a commit,
``reports`` tells how things stand; ``sql`` has the statements.
"""

from reconcilers.workqueue.reports import status
from reconcilers.workqueue.requests import collect, enqueue
from reconcilers.workqueue.scanner import resync
from reconcilers.workqueue.steps import Claim, claim, extend, finish, park, release, remove
from reconcilers.workqueue.sweeper import sweep

__all__ = [
    "Claim",
    "claim",
    "collect",
    "enqueue",
    "extend",
    "finish",
    "park",
    "release",
    "remove",
    "resync",
    "status",
    "sweep",
]

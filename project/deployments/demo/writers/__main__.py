"""``python -m project.deployments.demo.writers KIND=COUNT...``: some writers in one process, a thread each.

Environment: OCC_DEMO_RUN (the run directory), OCC_DEMO_SITE, OCC_DEMO_USER and OCC_DEMO_PASSWORD, and
the project's own. Standard input: one line of JSON per act, ``{"fleet", "deployments", "seconds"}``; its end, which
comes also when the demo dies, ends the process.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from project.deployments.demo.events import Event, EventLog, What
from project.deployments.demo.writers.base import Target, Writer

Build = Callable[[str, EventLog, random.Random], Writer]


def main(arguments: list[str]) -> None:
    """Make the writers, say that they are ready, and race whenever told to."""
    me = str(os.getpid())
    log = EventLog(Path(os.environ["OCC_DEMO_RUN"]) / "events", f"writers-{me}")
    writers = build(arguments, log)
    log.append(Event(what=What.READY, writer=me))
    with ThreadPoolExecutor(len(writers)) as threads:
        for line in sys.stdin:
            act = json.loads(line)
            target = Target(fleet=act["fleet"], deployments=act["deployments"])
            until = time.monotonic() + act["seconds"]
            taking_part = [writer for writer in writers if writer.writes_to(target)]
            for race in [threads.submit(writer.race, target, until=until) for writer in taking_part]:
                race.result()
            log.append(Event(what=What.DONE, writer=me, fleet=target.fleet))


def build(arguments: list[str], log: EventLog) -> list[Writer]:
    """Return the writers that arguments such as ``http=4`` ask for."""
    counts = {kind: int(count) for kind, _, count in (argument.partition("=") for argument in arguments)}
    makers: dict[str, Build] = {}
    if counts.keys() & {"http", "admin"}:
        makers |= _makers_over_http()
    if counts.keys() & {"mutate", "autoscaler", "rollout"}:
        makers |= _makers_over_orm()
    return [
        makers[kind](f"{kind}-{os.getpid()}-{number}", log, random.Random())  # noqa: S311 - spreads work, keeps no secret
        for kind, count in counts.items()
        for number in range(1, count + 1)
    ]


def _makers_over_http() -> dict[str, Build]:
    from project.deployments.demo.writers.http import HttpClient, login
    from project.deployments.demo.writers.person import AdminUser

    session = login(os.environ["OCC_DEMO_SITE"], os.environ["OCC_DEMO_USER"], os.environ["OCC_DEMO_PASSWORD"])
    return {
        "http": lambda name, log, chance: HttpClient(name, session=session, log=log, random=chance),
        "admin": lambda name, log, chance: AdminUser(name, session=session, log=log, random=chance),
    }


def _makers_over_orm() -> dict[str, Build]:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from project.deployments.demo.writers.models import MutateCaller, UnguardedAutoscaler, UnguardedRollout

    return {
        "mutate": lambda name, log, chance: MutateCaller(name, log=log, random=chance),
        "autoscaler": lambda name, log, chance: UnguardedAutoscaler(name, log=log, random=chance),
        "rollout": lambda name, log, chance: UnguardedRollout(name, log=log, random=chance),
    }


if __name__ == "__main__":
    main(sys.argv[1:])

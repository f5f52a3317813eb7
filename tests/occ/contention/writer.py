"""A process that writes one counter, as any program of a user's: ``python -m tests.occ.contention.writer WHAT PK``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django


def main(what: str, pk: int) -> None:
    django.setup()
    from django.conf import settings
    from django.db import connections

    from occ.contention.models import MINUTE, Bucket
    from occ.signals import conflict_detected
    from tests.kit.waiting import eventually
    from tests.library.models import Counter

    met = 0

    def note(**_: Any) -> None:
        nonlocal met
        met += 1

    conflict_detected.connect(note)

    def write(times: int) -> None:
        for _ in range(times):
            Counter.objects.mutate(pk, lambda counter: setattr(counter, "value", counter.value + 1))

    def stored() -> int:
        return sum(Bucket.objects.filter(width=MINUTE).values_list("writes", flat=True))

    settings.OCC = {"FLUSH_SECONDS": 3600 if what == "end" else 0.1}
    write(50)
    if what == "crash":
        eventually(lambda: stored() == 50, timeout=60)
        write(5)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fork":
        eventually(lambda: stored() == 50, timeout=60)
        settings.OCC = {"FLUSH_SECONDS": 3600}  # what follows waits in memory while this process forks
        write(5)
        connections.close_all()  # a connection must not be shared with the child
        if os.fork() == 0:
            settings.OCC = {"FLUSH_SECONDS": 0.1}
            before = stored()
            write(7)
            eventually(lambda: stored() >= before + 7, timeout=60)
            os._exit(0)
        os.wait()
    print("met", met)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

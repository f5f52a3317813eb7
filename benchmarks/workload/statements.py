"""The statements of a run that changes nothing, without anything around them: claim, read, finish."""

from __future__ import annotations

from django.db import connections

from reconcilers.models import Cause
from reconcilers.workqueue import sql, steps

OWNER = "bare"


def bare_run(reconciler: str, key: str, using: str = "default") -> bool:
    """Claim ``key``, read its row and finish, each in a transaction of its own; tell whether it was due."""
    d = sql.dialect_of(connections[using])
    claiming = {
        "reconciler": reconciler,
        "key": key,
        "owner": OWNER,
        "now": d.seconds(0),
        "lease": d.seconds(300),
        "max_attempts": 12,
    }
    if d.returning:
        rows = sql.fetch(using, sql.claim(d), claiming)
    else:
        rows = sql.fetch(using, sql.claimed(d), claiming) if sql.execute(using, sql.claim(d), claiming) else []
    if not rows:
        return False
    item, _, request_token, _, _, lease_token = rows[0]
    sql.fetch(using, "SELECT id, version, value FROM library_counter WHERE id = %(pk)s", {"pk": int(key)})
    finishing = {
        "id": item,
        "lease_token": lease_token,
        "request_token": request_token,
        "now": d.seconds(0),
        "next": d.seconds(0),
        "version": 1,
        "new_token": steps.new_token(),
        "cause": Cause.CLOCK,
    }
    return bool(sql.execute(using, sql.finish(d, again=False, unchanged=True), finishing))

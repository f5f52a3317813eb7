"""Reconcilers that change nothing, so that what is measured is the machinery around them."""

from __future__ import annotations

import time

from benchmarks.workload.models import Account, Order
from reconcilers import Reconciler, register
from tests.library.models import Counter


@register
class Idle(Reconciler):
    """Run by turns."""

    model = Counter
    resync = None

    def reconcile(self, counter: Counter) -> None:
        """Leave the row as it is."""


@register
class Bare(Reconciler):
    """Owns the items on which the bare statements are run; never run itself."""

    model = Counter
    resync = None

    def reconcile(self, counter: Counter) -> None:
        """Leave the row as it is."""


@register
class Teller(Reconciler):
    """Carry out the orders of an account: the only writer of its row."""

    model = Account
    resync = None

    def reconcile(self, account: Account) -> None:
        """Add what was ordered, and note when."""
        orders = list(Order.objects.filter(account_id=account.pk, done=None).values_list("pk", flat=True))
        account.value += Order.objects.filter(pk__in=orders).update(done=time.monotonic())

"""Signals that reconcilers sends.

``reconcile_finished(sender=class, reconciler, key, using, outcome, attempts, duration, error)``
    A run ended, after its transaction. ``outcome`` and ``reconciler`` are bounded and make good labels of metrics;
    ``key`` does not. ``attempts`` counts the runs since the last success, ``duration`` is in seconds. A receiver that
    raises is logged, and disturbs nothing.
"""

from django.dispatch import Signal

reconcile_finished = Signal()

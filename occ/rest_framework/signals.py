"""Signals of the REST layer.

``unconditional_write(sender=model, instance=instance, request=request)``
    A PUT, PATCH or DELETE that names no version is about to run, where the settings let it. Shows who has still to
    be moved over to If-Match.
"""

from django.dispatch import Signal

unconditional_write = Signal()

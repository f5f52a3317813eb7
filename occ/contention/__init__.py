"""How often writes are refused, where, and what to do about it: an optional app of its own.

Add ``"occ.contention"`` to INSTALLED_APPS, below ``"occ"``, and migrate. From then on each process counts the guarded
writes that were accepted and those that were refused, adds its counts to a table every few seconds, and logs a warning
when a model crosses the line of ``OCC["CONFLICT_WARN"]``. ``manage.py contention`` and a page of the admin show them.
"""

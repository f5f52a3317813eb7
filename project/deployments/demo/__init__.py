"""The demo: real processes race for the same rows, first unguarded, then guarded, and the ledger counts what is lost.

Started by ``manage.py demo``. ``show`` runs it from beginning to end; ``processes`` starts and stops everything
outside this process; ``writers`` is what those processes run; they tell what they did through ``events``; ``ledger``
compares that with the rows; ``report`` prints. Only ``telemetry`` is also loaded outside of a demo.
"""

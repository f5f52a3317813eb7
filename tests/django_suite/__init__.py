"""Django's own test suite, run with every model of its test apps optimistic-locked: ``make django-suite``.

The command fetches the source of the installed Django (source.py), runs the tests of the chosen apps twice, each in a
process of its own (run.py), and compares the outcomes (outcomes.py). In the *guarded* run every model of a test app is
an OptimisticLockModel, in the *control* run it merely gains a plain integer column of the same name and place
(conversion.py). A test that fails guarded and passes in control is a bug of occ, unless allowed.toml lists it with the
row of the models table that it contradicts by design.
"""

"""The reference project: Deployments that several writers change at once.

Every process that may send a task needs the project's Celery app to be Celery's current one, web processes included,
so importing the project makes it so. Without Celery installed the project works with ``manage.py runreconcilers``.
"""

import importlib.util

if importlib.util.find_spec("celery") is not None:
    from .celery import app as celery_app

    __all__ = ["celery_app"]

"""The test kit: real servers, real worker processes, failpoints in them, and time and chance under control.

Fixtures that tests ask for by name (all loaded by ``tests.conftest``):

=====================  =======================================================================================
``require_service``    skip the test, or fail it under OCC_REQUIRE_SERVICES=1, where a server is absent
``redis_server``       a Redis server of this test's own: stop, start, pause, resume, wipe
``rabbitmq_server``    a RabbitMQ server of this run's own: likewise
``broker``             an empty broker of this test's own, of the kind that CELERY_BROKER_URL names; the test process
                       and the workers it starts use it
``processes``          start any command on the test's database and broker; all are ended with the test
``celery_worker``      start a Celery worker and wait until it is ready
``celery_beat``        start Celery beat
``runreconcilers``     start ``manage.py runreconcilers``
``failpoints``         make a worker process (or this one) pause, fail or die between claim, read, write and finish
``second_session``     another database session: a thread with a connection of its own
``fake_clock``         a clock that only the test moves
``seeded_random``      a random source whose seed is in the report's head line
=====================  =======================================================================================

``tests.kit.waiting.eventually`` waits for what another process will do.
"""

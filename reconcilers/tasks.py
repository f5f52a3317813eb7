"""The Celery side, and the only module that imports Celery: two tasks, and how a nudge reaches the broker.

A message carries a reconciler's name, a key and a database alias, and nothing that matters: lost, late and doubled
ones are harmless. No task is ever sent with a countdown or an ETA.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from django.core import checks
from django.utils.connection import ConnectionDoesNotExist

from occ.logs import one_line
from reconcilers import controller, registry
from reconcilers.conf import reconciler_settings
from reconcilers.exceptions import InvalidKey, UnknownReconciler
from reconcilers.workqueue import nudges, sweeper

try:
    from celery import Celery, Task, current_app, shared_task
    from kombu.exceptions import ChannelError
except ImportError as error:
    raise ImportError(
        "reconcilers.tasks needs Celery: pip install 'django-occ[celery]', or work the queue with runreconcilers",
        name="celery",
    ) from error

logger = logging.getLogger("reconcilers")

# A commit waits for the broker: no longer than a person would notice, and not again soon after it did not answer.
TIMEOUT_SECONDS = 0.2
CLOSED_SECONDS = 5.0

# What every transport understands of "do not wait"; each ignores the words of the others.
_IMPATIENT: dict[str, Any] = {
    "max_retries": 0,
    "interval_start": 0,
    "connect_retries_timeout": TIMEOUT_SECONDS,
    "socket_timeout": TIMEOUT_SECONDS,
    "socket_connect_timeout": TIMEOUT_SECONDS,
    "retry_on_timeout": False,
    "read_timeout": TIMEOUT_SECONDS,
    "write_timeout": TIMEOUT_SECONDS,
    "confirm_publish": False,
}


# What a message may name that this process has not.
_NOT_OURS = (UnknownReconciler, InvalidKey, ConnectionDoesNotExist)


@shared_task(name="reconcilers.run", serializer="json", ignore_result=True, acks_late=False)
def run(reconciler: str, key: str, using: str = "default") -> None:
    """Give ``key`` a turn, if it is due and no other worker has it."""
    try:
        controller.turn(str(reconciler), key, using=using)
    except _NOT_OURS as error:
        # An old or a newer deploy sent it. Nothing was claimed: the item stays due for a worker that knows it.
        logger.error("A message was left alone: %s", one_line(error))


@shared_task(name="reconcilers.sweep", serializer="json", ignore_result=True, acks_late=False)
def sweep(using: str | None = None) -> None:
    """Wake workers for what is due."""
    try:
        sweeper.sweep(using=using)
    except ConnectionDoesNotExist as error:
        logger.error("A message was left alone: %s", one_line(error))


Message = tuple["Task[Any, Any]", tuple[Any, ...], dict[str, Any]]  # the task, its arguments, options


class BrokerLine:
    """The connection on which this process nudges: its own, impatient, and left alone for a while after a failure.

    Celery's own producers retry, and wait for a broker that does not answer for as long as the kernel does. That is
    right for messages that matter.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._closed_until = 0.0
        self._producer: Any = None
        self._belongs_to: tuple[int, str] = (0, "")

    def send(self, messages: list[Message]) -> None:
        """Send each message, or none of the rest when one does not go out."""
        if self._clock() < self._closed_until or not self._lock.acquire(timeout=TIMEOUT_SECONDS):
            return
        try:
            fresh = not self._connected()
            try:
                self._publish(messages)
            except Exception:
                self._hang_up()
                if fresh:
                    raise
                self._publish(messages)  # the broker may have closed a connection that was idle
        except Exception as error:
            self._hang_up()
            self._closed_until = self._clock() + CLOSED_SECONDS
            logger.warning(
                "The broker took no nudge (%s: %s); sweeps make up for it. Not tried again for %g s.",
                type(error).__name__,
                error,
                CLOSED_SECONDS,
            )
        finally:
            self._lock.release()

    def count(self, queue: str) -> int:
        """Return how many messages wait in ``queue``; 0 where that cannot be told."""
        if self._clock() < self._closed_until or not self._lock.acquire(timeout=TIMEOUT_SECONDS):
            return 0
        try:
            self._connect()
            return int(self._producer.channel.queue_declare(queue=queue, passive=True).message_count)
        except ChannelError:  # there is no such queue; on Redis an empty one is none
            if not getattr(self._producer.channel, "is_open", True):
                self._hang_up()
            return 0
        except Exception:
            self._hang_up()
            return 0
        finally:
            self._lock.release()

    def _publish(self, messages: list[Message]) -> None:
        self._connect()
        for task, arguments, options in messages:
            task.apply_async(args=arguments, producer=self._producer, retry=False, **options)

    def _connect(self) -> None:
        if not self._connected():
            self._hang_up()
            self._producer, self._belongs_to = _impatient_producer(run.app), _process_and_broker()

    def _connected(self) -> bool:
        # A connection does not survive a fork.
        return self._producer is not None and self._belongs_to == _process_and_broker()

    def _hang_up(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and self._belongs_to[0] == os.getpid():
            try:
                producer.connection.collect(socket_timeout=TIMEOUT_SECONDS)
            except Exception:
                logger.debug("The nudges' connection did not close cleanly.", exc_info=True)


def _process_and_broker() -> tuple[int, str]:
    return os.getpid(), str(run.app.conf.broker_write_url)


def _impatient_producer(app: Celery) -> Any:
    options = {**app.conf.broker_transport_options, **_IMPATIENT}
    connection = app.connection_for_write(connect_timeout=TIMEOUT_SECONDS, transport_options=options, heartbeat=0)
    try:
        connection.ensure_connection(max_retries=0)
        return app.amqp.Producer(connection.channel(), auto_declare=False)
    except Exception:
        connection.collect(socket_timeout=TIMEOUT_SECONDS)
        raise


_line = BrokerLine()
_eager_running = threading.local()


def send(keys: list[nudges.Key] | None, using: str) -> None:
    """Send a message per key; None: one that asks for a sweep."""
    if not has_project_app():
        _complain_once()
        return
    messages: list[Message]
    if keys is None:
        messages = [(sweep, (using,), {"expires": 60})]
    else:
        # A message that waited this long has been followed by others.
        expires = 2 * max(reconciler_settings.NUDGE_AGAIN_SECONDS, nudges.CROWDED_AGAIN_SECONDS)
        messages = [(run, (name, key, using), {"expires": expires, **_route(name)}) for name, key in keys]
    if run.app.conf.task_always_eager:
        _run_eagerly(messages)
    else:
        _line.send(messages)


def _route(name: str) -> dict[str, Any]:
    queue = registry.get(name).queue
    return {} if queue is None else {"queue": queue}


def count_waiting(queue: str | None) -> int:
    """Return how many messages wait in the Celery queue that runs of such a reconciler go to."""
    if run.app.conf.task_always_eager or not has_project_app():
        return 0
    options = {} if queue is None else {"queue": queue}
    routed = run.app.amqp.router.route(options, run.name).get("queue")
    return 0 if routed is None else _line.count(getattr(routed, "name", routed))


def _run_eagerly(messages: list[Message]) -> None:
    """Run them here, one after another: those that a run asks for come after it, never inside it."""
    waiting: deque[Any] | None = getattr(_eager_running, "waiting", None)
    if waiting is not None:
        waiting.extend(messages)
        return
    _eager_running.waiting = waiting = deque(messages)
    try:
        while waiting:
            task, arguments, _ = waiting.popleft()
            task.apply(args=arguments)
    finally:
        del _eager_running.waiting


def has_project_app() -> bool:
    """Whether the project made a Celery app in this process; else Celery makes one that knows no broker of yours."""
    app: Any = current_app
    return bool(app.set_as_current) or app.main != "default"


_complained = False


def _complain_once() -> None:
    global _complained
    if not _complained:
        _complained = True
        logger.error("Workers are not woken from this process: %s", NO_APP)


NO_APP = (
    "this process has not imported the project's Celery app, so messages would go to Celery's default broker. Import "
    "it in the project's __init__.py (from .celery import app as celery_app), or set RECONCILERS['NUDGE'] = False if "
    "nothing here runs on Celery."
)


def check_project_app(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """A web process must know the project's broker to wake its workers."""
    if not reconciler_settings.NUDGE or not registry.all_reconcilers() or has_project_app():
        return []
    problem, hint = NO_APP.split(". ", 1)
    return [checks.Error(f"reconcilers cannot wake Celery workers: {problem}.", hint=hint, id="reconcilers.E002")]

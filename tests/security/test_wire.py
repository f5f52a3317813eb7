"""Nothing that crosses a wire can be turned into code, and a forged message can do no more than a true one."""

import ast
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconcilers import Reconciler, enqueue
from reconcilers.models import WorkItem
from reconcilers.testing import registered
from tests.library.models import Counter

ROOT = Path(__file__).resolve().parents[2]
CODE_FROM_DATA = {"pickle", "cPickle", "dill", "marshal", "shelve", "cloudpickle", "jsonpickle", "yaml"}


class Counting(Reconciler):
    model = Counter
    resync = None

    def reconcile(self, counter: Counter) -> None:
        counter.value += 1


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_no_module_reads_a_format_that_can_hold_code() -> None:
    modules = [path for package in ("occ", "reconcilers", "project") for path in (ROOT / package).rglob("*.py")]

    found = {str(path): CODE_FROM_DATA & set(imports(path)) for path in modules}

    assert len(modules) > 100
    assert {path: names for path, names in found.items() if names} == {}


def test_messages_are_json_whatever_the_app_prefers() -> None:
    celery, kombu = pytest.importorskip("celery"), pytest.importorskip("kombu")
    importlib.import_module("reconcilers.tasks")  # tells every app of its tasks
    app: Any = celery.Celery("pickling", set_as_current=False)
    app.conf.task_serializer = "pickle"

    with kombu.Connection("memory://") as connection:
        producer = app.amqp.Producer(connection.channel(), auto_declare=True)
        for name, arguments in (("run", ("Counting", "1", "default")), ("sweep", ("default",))):
            task = app.tasks[f"reconcilers.{name}"]
            task.apply_async(args=arguments, producer=producer, retry=False, queue=f"wire-{name}")
        received = [connection.SimpleQueue(f"wire-{name}").get(timeout=10) for name in ("run", "sweep")]

    assert [message.content_type for message in received] == ["application/json"] * 2
    assert [json.loads(message.body)[0] for message in received] == [["Counting", "1", "default"], ["default"]]


@pytest.mark.django_db(transaction=True)
def test_a_forged_message_runs_nothing_that_is_not_due() -> None:
    pytest.importorskip("celery")
    from reconcilers import tasks

    counter = Counter.objects.create(value=1)

    with registered(Counting):
        enqueue(Counting, counter.pk, delay=3600)
        before = WorkItem.objects.values().get(reconciler="Counting")
        for _ in range(3):
            tasks.run("Counting", str(counter.pk), "default")
        tasks.run("Counting", "999999", "default")
        after = WorkItem.objects.values().get(reconciler="Counting")

    counter.refresh_from_db()
    assert (counter.value, counter.version) == (1, 1)
    assert after == before

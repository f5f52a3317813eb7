"""Act three: the classic story, played for real on one deployment, with the version numbers that occurred.

Two controllers read version 42. The autoscaler writes first. The rollout's write, decided on what is no longer so, is
refused; it reads again, decides again, writes. Two threads, two database connections; events only fix who is first.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from django.db import connection
from django.utils import timezone

from occ.exceptions import Conflict
from project.deployments import controllers
from project.deployments.models import Deployment

T = TypeVar("T")

NAME = "wishlist"
START = 42
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened: seconds since both began, who, what."""

    seconds: float
    who: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened to the deployment.

    Attributes:
        lines: in the order in which it happened.
        read: the version that both controllers read.
        won: the version that the autoscaler's write became.
        refused: the versions that the refused write expected and found.
        written: the version that the rollout's second write became.
        nothing_lost: whether the row holds what both of them wrote.
    """

    lines: tuple[Line, ...]
    read: int
    won: int
    refused: tuple[int | None, int | None]
    written: int
    nothing_lost: bool


def play() -> Story:
    """Bring a new deployment to version 42 by real writes, then let two controllers race for it."""
    deployment = Deployment.objects.create(
        name=NAME,
        image="registry.shop.example/wishlist:1.0.0",
        template={"env": {"SHARE_LINKS": "on"}, "port": 8080, "resources": {"cpu": "250m", "memory": "256Mi"}},
        replicas=3,
        min_replicas=2,
        max_replicas=10,
        target_load=100,
        observed_load=260,
        paused=True,  # for the controllers in the Celery worker: the two of this story have it to themselves
    )
    while deployment.version < START:
        deployment = Deployment.objects.mutate(deployment.pk, _next_release)
    try:
        return _Race(deployment.pk).run()
    finally:
        Deployment.objects.mutate(deployment.pk, _resume)


def _next_release(deployment: Deployment) -> None:
    deployment.image = f"registry.shop.example/wishlist:1.0.{deployment.version}"
    deployment.observed_load = 254 + 6 * deployment.version


def _resume(deployment: Deployment) -> None:
    deployment.paused = False


class _Race:
    """The two controllers: what each of them does, from top to bottom, is in the method of its name."""

    def __init__(self, pk: int) -> None:
        self._pk = pk
        self._both_have_read = threading.Barrier(2, timeout=PATIENCE_SECONDS)
        self._autoscaler_is_done = threading.Event()
        self._lines: list[Line] = []
        self._began = time.perf_counter()

    def run(self) -> Story:
        with ThreadPoolExecutor(2) as threads:
            autoscaler = threads.submit(self._closing, self._autoscaler)
            rollout = threads.submit(self._closing, self._rollout)
            read, won, replicas = autoscaler.result()
            _, refused, written = rollout.result()
        row = Deployment.objects.get(pk=self._pk)
        kept = row.replicas == replicas and row.version == written and controllers.has_newest_template(row)
        lines = tuple(sorted(self._lines, key=lambda line: line.seconds))
        return Story(lines=lines, read=read, won=won, refused=refused, written=written, nothing_lost=kept)

    def _autoscaler(self) -> tuple[int, int, int]:
        deployment = self._read("Autoscaler")
        read, before = deployment.version, deployment.replicas
        self._both_have_read.wait()
        try:
            controllers.scale(deployment)
            deployment.save()
            self._tell(
                "Autoscaler",
                f"{deployment.observed_load} requests/s, {deployment.target_load} for each replica: sets replicas from "
                f"{before} to {deployment.replicas}. Accepted: version {deployment.version}.",
            )
        finally:
            self._autoscaler_is_done.set()
        return read, deployment.version, deployment.replicas

    def _rollout(self) -> tuple[int, tuple[int | None, int | None], int]:
        deployment = self._read("Rollout")
        read = deployment.version
        self._both_have_read.wait()
        controllers.roll(deployment, now=timezone.now())
        self._autoscaler_is_done.wait(PATIENCE_SECONDS)
        refused = self._write_stale(deployment)
        deployment = self._read("Rollout")
        controllers.roll(deployment, now=timezone.now())
        deployment.save()
        self._tell(
            "Rollout",
            f"decides again, with {deployment.replicas} replicas: writes template hash {deployment.template_hash}. "
            f"Accepted: version {deployment.version}.",
        )
        return read, refused, deployment.version

    def _write_stale(self, deployment: Deployment) -> tuple[int | None, int | None]:
        try:
            deployment.save()
        except Conflict as conflict:
            self._tell(
                "Rollout",
                f"writes template hash {deployment.template_hash}, expecting version {conflict.expected}. "
                f"Refused: the row is at version {conflict.actual}.",
            )
            return conflict.expected, conflict.actual
        raise AssertionError(f"The stale write of {deployment} was accepted as version {deployment.version}.")

    def _read(self, who: str) -> Deployment:
        deployment: Deployment = Deployment.objects.get(pk=self._pk)
        self._tell(who, f"reads version {deployment.version}: {deployment.replicas} replicas.")
        return deployment

    def _tell(self, who: str, what: str) -> None:
        self._lines.append(Line(seconds=time.perf_counter() - self._began, who=who, what=what))

    def _closing(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            connection.close()

"""The whole demo, from an empty database to the table."""

import time
from pathlib import Path

from django.conf import settings
from django.db import connection
from rich.console import Console

from project.celery import app
from project.deployments import controllers
from project.deployments.demo import fleet, report, story, ways
from project.deployments.demo.acts import Performance, Plan
from project.deployments.demo.broker import own_queue, require_broker
from project.deployments.demo.options import Options
from project.deployments.demo.outcome import Act, Outcome
from project.deployments.demo.preflight import listen, require_database, require_writable
from project.deployments.demo.processes import Process, Supervisor
from project.deployments.demo.progress import ActDisplay
from project.deployments.demo.stage import LOOK_SECONDS, Stage
from project.deployments.models import Deployment, JournalEntry, UnguardedDeployment
from project.deployments.reconcilers import Autoscaler, Rollout
from reconcilers.models import WorkItem

SETTLE_SECONDS = 60.0
FLEETS = JournalEntry.Fleet


def run(options: Options, run_directory: Path, console: Console) -> bool:
    """Play all acts, print the table, stay up until interrupted unless told to exit; return whether all went well.

    Raises:
        DemoError: something that the demo needs is not there.
        ProcessDied: one of its processes ended by itself.
        KeyboardInterrupt: it was told to stop before the table.
    """
    if options.json:
        require_writable(options.json)
    require_database()
    require_broker()
    listener = listen(options.port)
    with (
        own_queue(app.conf.task_default_queue),
        Supervisor(run_directory / "logs", cwd=settings.BASE_DIR) as supervisor,
    ):
        stage = Stage(supervisor, run_directory)
        console.print("Starting web server, Celery worker, beat and writers", style="bold")
        fleet.prepare(options.deployments)
        login = fleet.make_login()
        connection.close()
        stage.start_site(listener)
        stage.start_worker()
        stage.start_beat()
        stage.wait_for_site()
        outcome = _Show(options, console, supervisor, stage).play(login)
        report.print_table(console, outcome)
        if options.json:
            report.write_json(options.json, outcome)
        for problem in outcome.problems():
            console.print(f"FAILED: {problem}", style="bold red")
        if not options.exit:
            _stay_up(console, stage, login)
        return not outcome.problems()


class _Show:
    """The four acts, on a stage where web server, worker and beat run."""

    def __init__(self, options: Options, console: Console, supervisor: Supervisor, stage: Stage) -> None:
        self._options = options
        self._console = console
        self._supervisor = supervisor
        self._stage = stage

    def play(self, login: tuple[str, str]) -> Outcome:
        """Let the writers write, first unguarded, then guarded, and tell the story."""
        writers = self._hire(login)
        self._stage.wait_for_worker()
        unguarded = self._act_one(writers)
        guarded, unsettled, settled_after = self._act_two(writers)
        self._supervisor.stop(*writers)
        return Outcome(
            unguarded=unguarded,
            guarded=guarded,
            story=self._act_three(),
            ways=self._act_four(),
            unsettled=unsettled,
            settled_after=settled_after,
            worker_killed=self._options.kill_worker,
            database=connection.vendor,
            broker=settings.CELERY_BROKER_URL.partition(":")[0],
        )

    def _hire(self, login: tuple[str, str]) -> list[Process]:
        """Start the writers; the first ``mutate`` caller's process also has the unguarded fleet's controllers."""
        username, password = login
        environment = {"OCC_DEMO_USER": username, "OCC_DEMO_PASSWORD": password}
        http = [f"http={self._options.http_clients}", "admin=1"]
        writers = [
            self._stage.start_writers(*http, environment=environment),
            self._stage.start_writers("mutate=1", "autoscaler=1", "rollout=1"),
        ]
        while len(writers) <= self._options.mutate_callers:
            writers.append(self._stage.start_writers("mutate=1"))
        for process in writers:
            self._stage.wait_for(process)
        return writers

    def _act_one(self, writers: list[Process]) -> Act:
        seconds = self._options.act_one_seconds
        plan = Plan(fleet=FLEETS.UNGUARDED, model=UnguardedDeployment, seconds=seconds, writers=writers)
        performance = Performance(self._stage, plan)
        with ActDisplay(self._console, "Act one: everybody writes, nothing is guarded", seconds=seconds) as display:
            performance.play(display)
            act = performance.close()
            display.say(f"{act.audit.accepted:,} updates accepted, {act.audit.lost:,} of them gone from their rows.")
        return act

    def _act_two(self, writers: list[Process]) -> tuple[Act, tuple[str, ...], float]:
        seconds = self._options.act_two_seconds
        plan = Plan(
            fleet=FLEETS.GUARDED,
            model=Deployment,
            seconds=seconds,
            writers=writers,
            halfway=self._replace_worker if self._options.kill_worker else None,
        )
        performance = Performance(self._stage, plan)
        with ActDisplay(self._console, "Act two: the same, guarded by versions", seconds=seconds) as display:
            performance.play(display)
            ended = time.monotonic()
            unsettled = _unsettled()
            while unsettled and time.monotonic() < ended + SETTLE_SECONDS:
                performance.hear()
                display.update(performance.tally, f"reconcilers at work on {unsettled[0]}, {len(unsettled)} left")
                time.sleep(LOOK_SECONDS)
                unsettled = _unsettled()
            settled_after = time.monotonic() - ended
            act = performance.close()
            display.say(f"{act.audit.accepted:,} updates accepted, {act.audit.lost:,} of them gone from their rows.")
        return act, tuple(unsettled), settled_after

    def _replace_worker(self) -> str:
        worker = self._stage.worker
        assert worker is not None  # noqa: S101 - started before the first act
        self._supervisor.kill(worker)
        self._stage.start_worker()
        return f"Killed the Celery worker (kill -9 {worker.pid}) and started another."

    def _act_three(self) -> story.Story:
        self._console.print("Act three: two controllers, one row", style="bold")
        told = story.play()
        report.print_story(self._console, told)
        return told

    def _act_four(self) -> tuple[ways.Way, ...]:
        self._console.print("Act four: two controllers, one row, each its own columns", style="bold")
        raced = ways.play()
        report.print_ways(self._console, raced)
        return raced


def _unsettled() -> list[str]:
    """Return the deployments that a reconciler has not yet seen at their newest version, or would still change."""
    seen: dict[str, dict[str, int | None]] = {Autoscaler.name: {}, Rollout.name: {}}
    # Items first: a version that moves between the two reads must not look settled.
    for item in WorkItem.objects.filter(reconciler__in=seen):
        seen[item.reconciler][item.key] = item.observed_version
    return [
        deployment.name
        for deployment in Deployment.objects.all()
        if not controllers.settled(deployment)
        or any(versions.get(str(deployment.pk)) != deployment.version for versions in seen.values())
    ]


def _stay_up(console: Console, stage: Stage, login: tuple[str, str]) -> None:
    username, password = login
    console.print()
    console.print("Still running, until Ctrl-C:", style="bold")
    console.print(f"  Site   {stage.site}/\n  API    {stage.site}/api/\n  Admin  {stage.site}/admin/")
    console.print(f"  Login  {username} / {password}")
    try:
        while True:
            stage.events()
            time.sleep(0.5)
    except KeyboardInterrupt:
        console.print("Stopping.")

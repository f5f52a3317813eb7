"""What a person may choose about a demo, checked."""

from dataclasses import dataclass
from pathlib import Path

MOST_WRITERS = 64
MOST_DEPLOYMENTS = 500


@dataclass(frozen=True, kw_only=True)
class Options:
    """The size of a demo.

    Attributes:
        duration: seconds of racing in acts one and two together.
        writers: HTTP clients and ``mutate`` callers together; the admin user and the controllers come on top.
        deployments: how many rows they write to; fewer make it hotter.
        port: where the site listens on 127.0.0.1; 0: any free one.
        kill_worker: whether the Celery worker is killed (kill -9) in the middle of act two and a new one started.
        exit: whether to end after the table.
        json: a file to write the figures to.
    """

    duration: float = 20.0
    writers: int = 8
    deployments: int = 12
    port: int = 8000
    kill_worker: bool = False
    exit: bool = False
    json: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.duration <= 3600:
            raise ValueError(f"--duration must be from 1 to 3600 seconds, not {self.duration:g}.")
        if not 2 <= self.writers <= MOST_WRITERS:
            raise ValueError(f"--writers must be from 2 to {MOST_WRITERS}, not {self.writers}.")
        if not 1 <= self.deployments <= MOST_DEPLOYMENTS:
            raise ValueError(f"--deployments must be from 1 to {MOST_DEPLOYMENTS}, not {self.deployments}.")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"--port must be from 0 (any free one) to 65535, not {self.port}.")

    @property
    def mutate_callers(self) -> int:
        """How many of the writers call ``mutate``, each in a process of its own."""
        return max(1, self.writers // 4)

    @property
    def http_clients(self) -> int:
        """How many of the writers use the API."""
        return self.writers - self.mutate_callers

    @property
    def act_one_seconds(self) -> float:
        """How long the unguarded fleet is written to."""
        return self.duration * 0.3

    @property
    def act_two_seconds(self) -> float:
        """How long the guarded fleet is written to."""
        return self.duration * 0.7

"""The changes that clients make: a monitor reports load, a pipeline releases an image, an operator sets an option.

Each works on the deployment as a dictionary of its fields, as the API gives it.
"""

import random
import re
from typing import Any


def make_one(deployment: dict[str, Any], writer: str, random: random.Random) -> None:
    """Make one of the changes, and raise the writer's own counter in ``annotations``."""
    kind = random.choices([report_load, release_image, set_option], weights=[7, 2, 1])[0]
    kind(deployment, random)
    annotations = deployment["annotations"]
    annotations[writer] = annotations.get(writer, 0) + 1


def report_load(deployment: dict[str, Any], random: random.Random) -> None:
    """Observe a load that some number of replicas within the limits can carry."""
    replicas = random.uniform(deployment["min_replicas"], deployment["max_replicas"])
    deployment["observed_load"] = round(replicas * deployment["target_load"])


def release_image(deployment: dict[str, Any], random: random.Random) -> None:
    """Release the next patch version."""
    deployment["image"] = re.sub(r"\d+$", lambda patch: str(int(patch[0]) + 1), deployment["image"])


def set_option(deployment: dict[str, Any], random: random.Random) -> None:
    """Choose another log level."""
    deployment["template"].setdefault("env", {})["LOG_LEVEL"] = random.choice(["debug", "info", "warning"])


def checked_times(notes: str) -> int:
    """Return how many checks the note of whoever is on call tells of."""
    checked = re.search(r"Checked (\d+) times?\.", notes)
    return int(checked[1]) if checked else 0


def checked_once_more(notes: str) -> str:
    """Return the note with one more check."""
    times = checked_times(notes) + 1
    return f"Checked {times} time{'s' if times > 1 else ''}."

"""A worker that runs for weeks: its memory stays flat."""

from __future__ import annotations

from tests.kit.processes import Processes


def test_the_memory_of_a_worker_stays_flat(plain_processes: Processes) -> None:
    measured = plain_processes.python(
        *("-m", "benchmarks.memory", "--runs", "2000"), env={"DATABASE_URL": "", "OCC_TEST_DATABASES": "{}"}
    )

    assert measured.wait(timeout=600) == 0, measured.output
    assert " runs: Python holds " in measured.output

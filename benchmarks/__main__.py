"""All measurements, one after another: ``make bench``, or ``python -m benchmarks [--quick] [NAME ...]``.

SQLite needs nothing. PostgreSQL and MariaDB are measured where BENCH_POSTGRES_URL and BENCH_MARIADB_URL (by default
those of a local server) answer; each command makes a test database and drops it again. Figures go to
``benchmarks/results/NAME-DATABASE.json``, pictures beside them; with --quick both are left as they are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

RESULTS = Path(__file__).parent / "results"
SERVERS = {
    "postgresql": os.environ.get("BENCH_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test"),
    "mariadb": os.environ.get("BENCH_MARIADB_URL", "mysql://root@127.0.0.1:3306/test"),
}
# Each command with the databases that it is about.
COMMANDS = {
    "saves": ("sqlite", "postgresql", "mariadb"),
    "transaction": ("sqlite", "postgresql"),
    "http": ("sqlite", "postgresql"),
    "hot_key": ("postgresql", "mariadb"),
    "queue": ("postgresql",),
    "plan": ("postgresql",),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="to see that all of it runs, not to quote")
    options = parser.parse_args()
    if unknown := set(options.names) - set(COMMANDS):
        parser.error(f"unknown measurement {unknown.pop()!r}: choose from {', '.join(COMMANDS)}")

    runs = [(name, database) for name in options.names or COMMANDS for database in COMMANDS[name]]
    failed = []
    for number, (name, database) in enumerate(runs, start=1):
        print(f"\n[{number}/{len(runs)}] {name} on {database}", flush=True)
        if database in SERVERS and not _answers(SERVERS[database]):
            print(f"  left out: nobody listens at {SERVERS[database]}")
            continue
        began = time.monotonic()
        if _run(name, database, quick=options.quick):
            failed.append(f"{name} on {database}")
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    if not options.quick:
        from benchmarks import plots

        plots.draw(RESULTS)
    if failed:
        print(f"\nMissed an aim, or failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run(name: str, database: str, *, quick: bool) -> int:
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    command += ["--quick"] if quick else ["--json", str(RESULTS / f"{name}-{database}.json")]
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    if database in SERVERS:
        environment["DATABASE_URL"] = SERVERS[database]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


def _answers(url: str) -> bool:
    import socket

    server = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((server.hostname or "127.0.0.1", server.port or 0)) == 0


if __name__ == "__main__":
    raise SystemExit(main())

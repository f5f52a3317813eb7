"""``python -m tests.django_suite [APP ...] [--quick]``: run guarded and control, compare, exit 1 on a difference.

Apps default to those of apps.txt, with --quick to those of its first paragraph, which are about writing; a test's full
name works too. DATABASE_URL chooses the database (SQLite in memory otherwise). Django's source is fetched once; the
outcomes and the output of both runs stay in build/django-suite.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import django

from tests.django_suite.outcomes import Comparison, Outcomes, compare, parse_allowed
from tests.django_suite.source import CACHE, runtests

HERE = Path(__file__).resolve().parent
MODES = ("guarded", "control")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make django-suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("apps", nargs="*", help="apps or tests of Django's suite; default: those of apps.txt")
    parser.add_argument("--quick", action="store_true", help="only the apps about writing, as CI does")
    parser.add_argument("--reuse-control", action="store_true", help="compare with the last control run of all apps")
    parser.add_argument("--show", action="store_true", help="show the traceback of each difference")
    options = parser.parse_args()
    apps = options.apps or chosen((HERE / "apps.txt").read_text(), quick=options.quick)
    control, guarded = run(apps, reuse_control=options.reuse_control)
    allowed = parse_allowed((HERE / "allowed.toml").read_text(), django.VERSION[:2])
    comparison = compare(control, guarded, allowed)
    if options.show:
        for name in comparison.differences:
            print(f"\n{name}\n{guarded['tests'].get(name, {}).get('traceback', '')}")
    print(report(comparison))
    return 1 if comparison.unexplained else 0


def chosen(text: str, *, quick: bool) -> list[str]:
    """Return the apps that apps.txt lists, or its first paragraph's; each test is named once."""
    if quick:
        return text.partition("\n\n")[0].split()
    apps = text.split()
    return [app for app in apps if app.partition(".")[0] == app or app.partition(".")[0] not in apps]


def run(apps: list[str], *, reuse_control: bool) -> tuple[Outcomes, Outcomes]:
    """Run the apps' tests in both modes at once, each in a process, and return the outcomes: control, guarded."""
    script = runtests()
    apps = [app for app in apps if (script.parent / app.partition(".")[0]).is_dir()]
    print(f"Running {len(apps)} of Django {django.get_version()}'s test apps, guarded and control ...", flush=True)
    processes = [_start(mode, script, apps) for mode in MODES if mode == "guarded" or not reuse_control]
    for process in processes:
        process.wait()
    control, guarded = _outcomes("control"), _outcomes("guarded")
    if reuse_control:
        control["tests"] = {name: test for name, test in control["tests"].items() if name in guarded["tests"]}
    return control, guarded


def report(comparison: Comparison) -> str:
    """Say in a few lines what the comparison found."""
    explained = len(comparison.differences) - sum(
        line.partition(":")[0] in comparison.differences for line in comparison.unexplained
    )
    lines = [
        f"{mode}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        for mode, counts in (("control", comparison.control), ("guarded", comparison.guarded))
    ]
    lines.append(f"{len(comparison.differences)} fail only when guarded, {explained} of them by design (allowed.toml)")
    lines += [f"UNEXPLAINED {line}" for line in comparison.unexplained]
    return "\n".join(lines)


def _start(mode: str, script: Path, apps: list[str]) -> subprocess.Popen[bytes]:
    _file(mode, "json").unlink(missing_ok=True)
    environment = {**os.environ, "DJANGO_SUITE_MODE": mode, "DJANGO_SUITE_OUTCOMES": str(_file(mode, "json"))}
    command = [sys.executable, "-m", "tests.django_suite.run", str(script), "--parallel=1", "--noinput", *apps]
    with _file(mode, "log").open("wb") as log:
        return subprocess.Popen(command, cwd=HERE.parents[1], env=environment, stdout=log, stderr=subprocess.STDOUT)


def _outcomes(mode: str) -> Outcomes:
    if not _file(mode, "json").exists():
        tail = _file(mode, "log").read_text().splitlines()[-15:]
        raise SystemExit("\n".join([f"The {mode} run ended before its tests did; see {_file(mode, 'log')}:", *tail]))
    outcomes: Outcomes = json.loads(_file(mode, "json").read_text())
    return outcomes


def _file(mode: str, suffix: str) -> Path:
    database = urlsplit(os.environ.get("DATABASE_URL", "")).scheme or "sqlite"
    return CACHE / f"{mode}-{django.get_version()}-{database}.{suffix}"


if __name__ == "__main__":
    sys.exit(main())

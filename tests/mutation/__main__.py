"""Mutation testing: ``make mutants``, or ``make mutants ARGS="occ/etags.py"``. Prints how many survived, and which.

Every mutant of the modules in ``subjects.toml`` is run against the tests that are named beside it. What was killed is
remembered in ``.run/mutants.json`` while the module is unchanged, so that a run can be interrupted, and repeated on
another database (``DATABASE_URL``) with what survived. Ends with 1 where more than 5 % survived that are not explained
in ``subjects.toml``.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
import tomllib
from hashlib import blake2s
from pathlib import Path
from typing import Any

from tests.mutation.mutants import mutants
from tests.mutation.running import ROOT, preload, survives

SUBJECTS = Path(__file__).with_name("subjects.toml")
MEMORY = ROOT / ".run" / "mutants.json"
ALLOWED = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="paths, or beginnings of paths (default: all of subjects.toml)")
    parser.add_argument("--report", action="store_true", help="run nothing: show what is remembered")
    options = parser.parse_args()

    subjects = tomllib.loads(SUBJECTS.read_text())["subjects"]
    chosen = [path for path in subjects if not options.modules or path.startswith(tuple(options.modules))]
    if not chosen:
        parser.error(f"subjects.toml names no module of {' '.join(options.modules)}")
    if not options.report:
        preload()
    bad = 0
    for path in chosen:
        if not options.report:
            _run(path, subjects[path]["tests"])
        bad = max(bad, _report(path, subjects[path].get("known", {})))
    return bad


def _run(path: str, tests: list[str]) -> None:
    source = (ROOT / path).read_text()
    module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    tree = ast.parse(source)
    killed = set(_remembered(path, source))
    began = time.monotonic()
    if not survives(module, tree, lambda: None, tests, timeout=600):
        sys.exit(f"{path}: its tests fail without any fault: {' '.join(tests)}")
    timeout = 10 + 5 * (time.monotonic() - began)
    for mutant in mutants(tree):
        if mutant.name not in killed and not survives(module, tree, mutant.inject, tests, timeout=timeout):
            killed.add(mutant.name)
            _remember(path, source, killed)
    _remember(path, source, killed, finished=True)


def _report(path: str, known: dict[str, str]) -> int:
    source = (ROOT / path).read_text()
    every = mutants(ast.parse(source))
    killed = _remembered(path, source)
    left = [mutant for mutant in every if mutant.name not in killed]
    unexplained = [mutant for mutant in left if mutant.name not in known]
    unfinished = "" if _memory().get(path, {}).get("finished") == _digest(source) else " (not finished)"
    print(f"{path}: {len(every)} mutants, {len(left)} survived, {len(unexplained)} of them unexplained{unfinished}")
    for mutant in unexplained:
        print(f"  {path}:{mutant.line}: {mutant.name}")
    return int(len(unexplained) > ALLOWED * len(every))


def _digest(source: str) -> str:
    return blake2s(source.encode(), digest_size=8).hexdigest()


def _memory() -> dict[str, Any]:
    memory: dict[str, Any] = json.loads(MEMORY.read_text()) if MEMORY.exists() else {}
    return memory


def _remembered(path: str, source: str) -> list[str]:
    entry = _memory().get(path, {})
    return list(entry["killed"]) if entry.get("source") == _digest(source) else []


def _remember(path: str, source: str, killed: set[str], *, finished: bool = False) -> None:
    memory = _memory()
    memory[path] = {"source": _digest(source), "killed": sorted(killed)}
    if finished:
        memory[path]["finished"] = _digest(source)
    MEMORY.parent.mkdir(exist_ok=True)
    MEMORY.write_text(json.dumps(memory, indent=1))


if __name__ == "__main__":
    sys.exit(main())

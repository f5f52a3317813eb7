"""Runs a module's tests on one of its mutants, in a fork of a process that has loaded everything but our own code."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Loading these takes longer than most runs. None of them imports our code or reads Django's settings.
_PRELOADED = (
    "celery.app.amqp",
    "celery.app.task",
    "celery.backends.base",
    "celery.fixups.django",
    "django.contrib.admin.sites",
    "django.core.management.commands.migrate",
    "django.core.management.commands.runserver",
    "django.core.servers.basehttp",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.test",
    "django.test.runner",
    "django.views.debug",
    "hypothesis.stateful",
    "hypothesis.strategies",
    "jinja2",
    "kombu.transport.filesystem",
    "kombu.transport.memory",
    "playwright.sync_api",
    "pygments.formatters.terminal",
    "pytest_django.plugin",
    "pytest_playwright.pytest_playwright",
    "requests",
    "rich.progress",
    "unittest.mock",
    "xdist.plugin",
)


class MutatedLoader(SourceFileLoader):
    """Loads a module from a syntax tree instead of from its file."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class MutatingFinder:
    """Finds one module as mutated, and no other."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module = module
        self.tree = tree

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        spec.loader = MutatedLoader(name, spec.origin)
        spec.loader.tree = self.tree
        return spec


def preload() -> None:
    """Load what every run needs. Our own code must stay unloaded: a fork loads it with the fault in it."""
    sys.dont_write_bytecode = False
    for module in _PRELOADED:
        importlib.import_module(module)
    ours = [name for name in sys.modules if name.partition(".")[0] in ("occ", "reconcilers", "project")]
    assert ours == [], ours


def survives(module: str, tree: ast.Module, inject: Any, tests: Sequence[str], *, timeout: float) -> bool:
    """Tell whether all ``tests`` pass with the fault; a run that hangs for ``timeout`` seconds is a failed one."""
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if pid == 0:
            _run_tests(module, tree, inject, tests, folder)
        return _status(pid, timeout) == 0


def _run_tests(module: str, tree: ast.Module, inject: Any, tests: Sequence[str], folder: str) -> None:
    status = 1
    try:
        os.setsid()
        output = os.open(os.path.join(folder, "output"), os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(ROOT)
        os.environ.update(HYPOTHESIS_STORAGE_DIRECTORY=folder, OCC_RUN_DIR=folder)
        inject()
        sys.meta_path.insert(0, MutatingFinder(module, tree))  # type: ignore[arg-type]
        options = (
            "-q",
            "-x",
            "--no-header",
            "--tb=no",
            "--assert=plain",
            "--no-migrations",
            "--hypothesis-seed=0",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            f"--basetemp={folder}/pytest",
        )
        plugins = (
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:cov",
            "-p",
            "no:schemathesis",
            "-p",
            "no:anyio",
        )
        status = pytest.main([*options, *plugins, *tests])
    finally:
        os._exit(int(status))


def _status(pid: int, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGKILL
        time.sleep(0.02)

"""The source distribution of the installed Django, which holds its tests: fetched once, kept in build/django-suite."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import django

CACHE = Path(__file__).resolve().parents[2] / "build" / "django-suite"


def runtests() -> Path:
    """Return the path of runtests.py of the installed Django's version, after fetching it if need be."""
    version = django.get_version()
    unpacked = CACHE / f"django-{version}"
    if not (unpacked / "tests" / "runtests.py").exists():
        with tarfile.open(_download(version)) as archive:
            archive.extractall(CACHE, filter="data")
    return unpacked / "tests" / "runtests.py"


def _download(version: str) -> Path:
    archive = CACHE / f"django-{version}.tar.gz"
    if not archive.exists():
        print(f"Fetching the source of Django {version} ...", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted = ["--no-binary", ":all:", "--no-deps", f"django=={version}"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted, "--dest", str(CACHE)], check=True)
    return archive

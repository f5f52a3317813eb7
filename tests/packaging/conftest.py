"""The source distribution and the wheel of this checkout, built as for a release."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command with none of this checkout's settings, and return what it printed."""
    unwanted = ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    done = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def tracked() -> list[str]:
    """The paths of all files of the checkout, as Git knows them."""
    return run("git", "ls-files", cwd=ROOT).split()


@pytest.fixture(scope="session")
def distributions(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of a clean checkout, and the wheel that is made from it."""
    if os.environ.get("OCC_REQUIRE_SERVICES") != "1":
        pytest.importorskip("build", reason="pip install 'django-occ[dev]', as `make newcomer` does")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    run("cp", "--parents", *tracked, str(source), cwd=ROOT)
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(source))
    return folder


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path

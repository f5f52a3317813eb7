"""README's code blocks, run as a reader would: files into a new project, scripts into its shell."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.projects import Project
from tests.kit.processes import Processes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def readme() -> blocks.Blocks:
    return blocks.read(ROOT / "README.md")


def test_the_examples_of_the_readme_run_and_print_what_it_says(
    readme: blocks.Blocks, tmp_path: Path, plain_processes: Processes
) -> None:
    pytest.importorskip("rest_framework")
    project = Project(tmp_path, readme, plain_processes, {"shop/urls.py": readme.files["mysite/urls.py"]})
    project.migrate()

    printed = project.prints(readme.script)

    assert printed == readme.prints


def test_the_readme_names_only_make_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:^|`)make ([\w-]+)\b(?!=)", text, re.MULTILINE))

    assert named - targets == set()


def test_the_readme_links_to_files_that_there_are() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())

    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(links) > 10


def test_its_picture_of_the_demo_is_made_from_what_the_demo_prints(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    printed = "Act one\nAct three: two controllers\n\x1b[1mall\x1b[0m  547\n"
    script = [sys.executable, str(ROOT / "docs" / "terminal.py"), str(tmp_path / "demo.svg")]

    subprocess.run(script, input=printed, text=True, check=True)

    picture = (tmp_path / "demo.svg").read_text()
    words = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)).replace("&#160;", " ")
    assert words == "make demoAct three: two controllers\nall  547\n"
    assert "url(" not in picture.replace("url(#", "")  # fetches nothing

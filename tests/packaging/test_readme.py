"""README, followed word by word in an empty folder, with the wheel alone and the extras that it names."""

from pathlib import Path

from tests.docs import blocks
from tests.docs.projects import ROOT
from tests.kit.processes import Processes
from tests.kit.servers import free_port
from tests.packaging.reader import Reader, command

README = ROOT / "README.md"
BURST = "python manage.py runreconcilers --burst"

ROW = """
from shop.models import Deployment
row = Deployment.objects.get()
print(row.name, row.replicas, row.ready_replicas)  # prints: basket 9 9
"""


def test_a_reader_who_follows_it_sees_what_it_says(wheel: Path, tmp_path: Path, plain_processes: Processes) -> None:
    page = blocks.read(README)
    adding = README.read_text().partition("## Adding it to a project\n")[2]
    new_project, settings, tables = adding.partition("```python\n")
    reader = Reader(tmp_path, plain_processes, wheel=wheel, port=free_port())
    reader.type(command("python -m venv .venv"))
    reader.type(command("source .venv/bin/activate"))

    reader.follow(new_project)
    for name, text in page.files.items():
        if name not in settings + tables:
            reader.write(name, text, at_the_end=False)
    reader.follow(settings + tables)
    reader.type(command("python manage.py check --fail-level WARNING"))
    reader.paste(page.script)
    reader.type(command(BURST))

    reader.paste(ROW)

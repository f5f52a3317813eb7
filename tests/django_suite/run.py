"""One run in this process: ``python -m tests.django_suite.run RUNTESTS [argument ...]``.

RUNTESTS is the path of Django's runtests.py; what follows is passed on to it. The environment says the rest:
DJANGO_SUITE_MODE (guarded or control), DJANGO_SUITE_OUTCOMES (the file to write), DATABASE_URL.
"""

import os
import runpy
import sys
from pathlib import Path

import django

from tests.django_suite.conversion import convert


def main() -> None:
    runtests = Path(sys.argv[1])
    os.chdir(runtests.parent)
    sys.path.insert(0, str(runtests.parent))
    sys.argv[:2] = [str(runtests)]
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_suite.settings"
    django.setup()  # Django's own apps are imported first, so that conversion does not reach them
    convert(os.environ["DJANGO_SUITE_MODE"])  # type: ignore[arg-type]
    runpy.run_path(str(runtests), run_name="__main__")


if __name__ == "__main__":
    main()

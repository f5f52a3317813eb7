"""Builds the documentation: ``make docs``. Warnings are errors, and so is a name of ours that nothing documents."""

import sys
from pathlib import Path

import django
from django.conf import settings
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_ext")]

# Some of the modules that autodoc imports define or look at models.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django.contrib.messages",
        "django.contrib.admin",
        "rest_framework",
        "occ",
        "occ.contention",
        "reconcilers",
    ],
    SECRET_KEY="of no use",  # noqa: S106
    USE_TZ=True,
)
django.setup()

import occ  # noqa: E402

project = "django-occ"
release = version = occ.__version__
project_copyright = "the django-occ contributors, BSD-3-Clause"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "command_help", "layers"]
exclude_patterns = ["_build"]
nitpicky = True
# Only our own names have a page here; type variables have none.
nitpick_ignore = [("py:class", "occ.exceptions.ObjectNotUpdated")]  # Django 6's, where there is none
nitpick_ignore_regex = [("py:.*", r"(?!occ\b|reconcilers\b).*"), ("py:class", r".*\._?[A-Z]")]

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"show-inheritance": True}
python_maximum_signature_line_length = 88
napoleon_use_rtype = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"django-occ {release}"
html_copy_source = False


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep napoleon from taking what comes before a colon in the first line of an attribute for its type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", keep_colons, priority=1)

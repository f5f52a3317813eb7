"""``.. command-help:: NAME``: what ``manage.py NAME --help`` says, without the options of every command."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management import get_commands, load_command_class
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = 100


class CommandHelp(SphinxDirective):
    """Shows the help of a management command of ours."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        return [nodes.literal_block(text=text, language="text") for text in _help(parser)]


def _help(parser: argparse.ArgumentParser) -> list[str]:
    """Return the help of the command, then that of each of its subcommands."""
    parser.formatter_class = _Formatter
    subcommands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    found = [_without_common(parser).format_help().rstrip()]
    for action in subcommands:
        for each in action.choices.values():
            found += _help(each)
    return found


def _without_common(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    for action in parser._actions:
        if action.dest in DJANGOS:
            action.help = argparse.SUPPRESS
    return parser


DJANGOS = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks",
}  # fmt: skip


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{**options, "width": WIDTH})


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

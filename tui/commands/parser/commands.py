"""Argument parsers that record their arguments and commands, for suggestions and completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tui.commands.terminal import stdio

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

GLOBAL_OPTIONS = "For global options such as --json, --profile and --zone, see tpu-tui --help"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and a pointer to the help."""

    def __init__(self, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        """The arguments of this parser, without those of its commands."""
        self.commands: dict[str, Parser] = {}
        """The parsers of its commands, by name."""
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument and record it."""
        action = super().add_argument(*names, **options)
        self.arguments.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and argparse's message."""
        self.refuse(message.removeprefix("argument "))

    def refuse(self, message: str, remedy: str = "") -> NoReturn:
        """Exit with code 2; print what is wrong and a remedy, by default the command that shows the help."""
        self.exit(2, f"tpu-tui: {message}\n  → {remedy or f'{self.prog} --help'}\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help. Raises OSError where that fails, which argparse would hide."""
        if file is None or file is sys.stdout:
            with stdio.stdout_named():
                sys.stdout.write(self.format_help())
        else:
            super().print_help(file)


class Commands:
    """The commands below a parser."""

    def __init__(
        self, parser: Parser, *, dest: str, metavar: str, parents: Sequence[Parser] = (), required: bool = False
    ) -> None:
        self.parents = tuple(parents)
        """Parsers whose options every command has."""
        self._below = parser.add_subparsers(
            title=f"{dest}s", dest=dest, metavar=metavar, required=required, parser_class=Parser
        )
        self._parsers = parser.commands

    def add(self, name: str, *, help: str, **options: Any) -> Parser:  # noqa: A002
        """Add a command; its help begins with the sentence that describes it in the list of commands."""
        options.setdefault("description", f"{help[0].upper()}{help[1:]}.")
        parser = self._below.add_parser(name, help=help, epilog=GLOBAL_OPTIONS, parents=self.parents, **options)
        self._parsers[name] = parser
        return parser

    def actions_of(self, parser: Parser, *, required: bool = True) -> Commands:
        """Return the actions below a command, to add some; without `required`, none means to list."""
        if not required:
            parser.description = f"{parser.description} Without an action, the command lists what there is."
        return Commands(parser, dest="action", metavar="ACTION", parents=self.parents, required=required)

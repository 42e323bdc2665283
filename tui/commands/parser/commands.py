"""Parsers that know their own arguments and commands, for suggestions and completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tui.commands.terminal import stdio

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_GLOBAL_OPTIONS = "For global options such as --json, --profile and --zone, see tpu-tui --help"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and where help is."""

    def __init__(self, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        """Arguments that were added to this very parser."""
        self.commands: dict[str, Parser] = {}
        """Parsers of the commands right below this one, by name."""
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument and remember it."""
        action = super().add_argument(*names, **options)
        self.arguments.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """End with exit code 2 and argparse's message."""
        self.refuse(message.removeprefix("argument "))

    def refuse(self, message: str, remedy: str = "") -> NoReturn:
        """End with exit code 2: what is wrong, and what to do or where help is."""
        self.exit(2, f"tpu-tui: {message}\n  → {remedy or f'{self.prog} --help'}\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help. Raises OSError where it cannot be printed, which argparse would hide."""
        if file is None or file is sys.stdout:
            with stdio.stdout_named():
                sys.stdout.write(self.format_help())
        else:
            super().print_help(file)


class Commands:
    """The commands below a parser."""

    def __init__(self, parser: Parser, *, dest: str, metavar: str, parents: Sequence[Parser] = ()) -> None:
        self.parents = tuple(parents)
        """Parsers whose options every command has."""
        self._below = parser.add_subparsers(dest=dest, metavar=metavar, parser_class=Parser)
        self._parsers = parser.commands

    def add(self, name: str, *, help: str, **options: Any) -> Parser:  # noqa: A002
        """Add a command; its own help begins with the sentence that the list of commands has for it."""
        options.setdefault("description", f"{help[0].upper()}{help[1:]}.")
        parser = self._below.add_parser(name, help=help, epilog=_GLOBAL_OPTIONS, parents=self.parents, **options)
        self._parsers[name] = parser
        return parser

    def below(self, parser: Parser, *, dest: str = "action", metavar: str = "ACTION") -> Commands:
        """Return the place for the actions of one command."""
        return Commands(parser, dest=dest, metavar=metavar, parents=self.parents)

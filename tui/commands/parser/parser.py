"""Parse the command line: global options, the commands, and the words after `--`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

from tui import __version__
from tui.commands.parser.argument_types import as_text, file
from tui.commands.parser.commands import Commands, Parser
from tui.commands.parser.suggestions import find_parser, suggest, suggest_command, unknown_option
from tui.commands.terminal import stdio
from tui.text.printable import one_line

_JOB_SEPARATOR = "--"
_HELP = "help"
"""`tpu-tui help launch` is `tpu-tui launch --help`, as other tools have it."""

_GROUPS = {
    "slices": (
        "slices",
        "workers",
        "check",
        "ssh",
        "exec",
        "sync",
        "fetch",
        "keys",
        "groups",
        "resources",
        "buckets",
    ),
    "runs": ("launch", "xla_dist", "runs", "status", "attach", "open", "stop"),
    "logs and reports": ("cores", "logs", "dialect", "replay", "report", "compare", "plan"),
    "this machine": ("local", "demo", "serve", "config", "completion"),
}
"""The commands under their headings of `--help`; each is a module of `tui.commands`."""
COMMANDS = tuple(name for names in _GROUPS.values() for name in names)

_EXIT_CODES = """
exit codes:
  0  success
  1  a check, a command or a run failed, or a stop is unconfirmed
  2  wrong usage; no such run, slice or file; refused by --read-only
  3  the cloud or a worker is unreachable; known data is still printed
  130  interrupted
"""
_OPTIONS_HEADING = "options:"
"""argparse's heading, the same in all supported versions of Python."""


class _PrintVersion(argparse.Action):
    """Print the version and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        with stdio.stdout_named():
            print(f"tpu-tui {__version__}")
        parser.exit()


class _RootParser(Parser):
    """The parser of the whole command line, whose help lists the commands in groups."""

    def format_help(self) -> str:
        """Return the help with a heading above each group of commands."""
        text = super().format_help().replace("  COMMAND\n", "", 1)
        for heading, (first, *_) in _GROUPS.items():
            text = text.replace(f"\n    {first} ", f"\n  {heading}:\n    {first} ", 1)
        return text


def global_options() -> Parser:
    """Return the parser of the options that are accepted before or after the command, up to `--`."""
    parser = Parser(add_help=False, allow_abbrev=False, prog="tpu-tui")
    add = parser.add_argument
    add("--profile", help="use the settings saved under this name")
    add("--project", help="Google Cloud project")
    add("--zone", action="append", help="zone to look in; repeatable (default: the profile's or gcloud's, else all)")
    add("--hosts", metavar="FILE", type=file, help="a file of SSH hosts to use instead of the API, one per line")
    add("--user", help="user to log in as")
    add("--identity", metavar="FILE", type=file, help="private SSH key file")
    add("--known-hosts", metavar="FILE", type=file, help="file of trusted host keys in OpenSSH's format")
    add("--host-keys", choices=("strict", "accept-new"), help="what to do with an unknown host key (default: strict)")
    add("--read-only", action="store_true", default=None, help="refuse anything that changes or costs something")
    add("--json", action="store_true", help="print the answer as JSON on stdout")
    add("--debug", action="store_true", help="show a traceback for errors")
    return parser


def build_parser(command: str | None = None, *, parents: Sequence[Parser] = ()) -> Parser:
    """Return the parser of the whole command line, or only the part that one command needs.

    `parents` are parsers whose options every command accepts, for completion.
    """
    is_known = command in COMMANDS
    parser = _RootParser(
        prog="tpu-tui",
        description="See, check, launch, watch, stop and report training runs on Cloud TPU pods.\n"
        "Without a command, tpu-tui opens the console.\nRun `tpu-tui help COMMAND` for details.",
        epilog=None if is_known else _global_help() + _EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        parents=list(parents),
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="show the version and exit")
    commands = Commands(parser, dest="command", metavar="COMMAND", parents=parents)
    for name in (command,) if is_known else COMMANDS:
        importlib.import_module(f"tui.commands.{name}").add_command(commands)
    return parser


def _global_help() -> str:
    text = global_options().format_help()
    return text[text.index(_OPTIONS_HEADING) :].replace(_OPTIONS_HEADING, "global options:", 1)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; the words after `--` are the job's and become `args.argv` unchanged."""
    cut = words.index(_JOB_SEPARATOR) if _JOB_SEPARATOR in words else len(words)
    shared = global_options()
    everywhere, rest = shared.parse_known_args(list(words[:cut]))
    if rest[:1] == [_HELP]:
        rest = [*rest[1:], "--help"]
    parser = build_parser(rest[0] if rest else None)
    _name_action_of_word(rest, parser)
    _refuse_unknown_option(rest, shared, parser)
    _refuse_unknown_command(rest, parser)
    args, left_over = parser.parse_known_args(rest)
    _take_further_words(args, left_over, parser)
    args.argv = [as_text(word) for word in words[cut + 1 :]]
    args.everywhere = everywhere
    if args.argv and not getattr(args, "takes_job", False):
        remedy = "tpu-tui exec SLICE -- CMD" if args.command == "ssh" else ""
        parser.refuse(f"{args.command or 'the console'} does not take a command after --", remedy)
    return args


def _refuse_unknown_command(words: list[str], parser: Parser) -> None:
    """Refuse a word that is not a command or an action of one, and suggest a similar one."""
    current = parser
    for word in (one_line(word) for word in words if not word.startswith("-")):
        if current.commands and word not in current.commands:
            if current is parser:
                parser.refuse(f"no such command: {word}", suggest_command(word, COMMANDS))
            actions = ", ".join(current.commands)
            alone = f"; {current.prog} alone lists them" if current.get_default("run") else ""
            remedy = suggest(word, current.commands) or f"use {actions}{alone}"
            current.refuse(f"no such action of {current.prog}: {word}", remedy)
        current = current.commands.get(word, current)


def _name_action_of_word(words: list[str], parser: Parser) -> None:
    """Name an action that a command parses itself, such as `runs delete`, in errors; or print its help and exit."""
    command_parser = find_parser(words, parser)
    actions = command_parser.get_default("help_of") if command_parser else None
    if command_parser and actions and words[1:2] and words[1] in actions:
        command_parser.prog = actions[words[1]].prog
        if {"-h", "--help"} & {*words[2:]}:
            actions[words[1]].parse_args(["--help"])


def _refuse_unknown_option(words: list[str], shared: Parser, parser: Parser) -> None:
    """Refuse an unknown option before argparse takes its value for a positional argument."""
    command_parser = find_parser(words, parser)
    unknown = unknown_option(words, shared, command_parser) if command_parser else None
    takes_job = command_parser is not None and command_parser.get_default("takes_job")
    if takes_job and unknown and not unknown[0].startswith("--"):
        return  # `exec SLICE ls -l`: an option of the job; argparse's error leads to the right hint
    if command_parser and unknown:
        addition = "; options of the job's command go after --, with the command" if takes_job else ""
        parser.refuse(f"no such option: {unknown[0]}", unknown[1] or f"{command_parser.prog} --help{addition}")


def _take_further_words(args: argparse.Namespace, words: list[str], parser: Parser) -> None:
    """Append the words after an option to the argument that takes any number of words, named by `args.many`.

    argparse gives a positional argument only one unbroken sequence of words.
    """
    many = getattr(args, "many", None)
    if many and not any(word.startswith("-") and word != "-" for word in words):
        setattr(args, many, [*getattr(args, many), *words])
    elif words:
        if args.command:
            parser.prog = f"{parser.prog} {full_name(args)}"
        hint = f"put the command after --: {parser.prog} {getattr(args, 'slice', '')} -- {' '.join(words)}"
        parser.refuse(f"unrecognized arguments: {' '.join(words)}", hint if getattr(args, "takes_job", False) else "")


def flags(everywhere: argparse.Namespace) -> dict[str, Any]:
    """Return the global options that were given, by the names of their settings."""
    return {
        name: value for name, value in vars(everywhere).items() if value is not None and name not in ("json", "debug")
    }


def full_name(args: argparse.Namespace) -> str:
    """Return the name of the command with its action, e.g. `slices delete`."""
    return " ".join(filter(None, (args.command, getattr(args, "action", None))))

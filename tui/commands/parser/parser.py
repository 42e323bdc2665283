"""The command line, read: options that hold everywhere, the commands, and the words after `--`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tui import __version__
from tui.commands.parser.argument_types import as_text, file
from tui.commands.parser.suggestions import asked_of, command_meant, commands_of, unknown_option, word_meant
from tui.commands.terminal import stdio
from tui.text.printable import one_line

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_COMMAND_SEPARATOR = "--"

FAMILIES = {
    "slices": ("slices", "workers", "check", "exec", "sync", "config"),
    "keys": ("keys",),
    "runs": ("launch", "runs", "status", "attach", "open", "stop"),
    "logs": ("cores", "logs", "dialect", "replay"),
    "report": ("report",),
    "compare": ("compare",),
    "plan": ("plan",),
    "local": ("local", "demo"),
    "serve": ("serve",),
    "parser.shell_completion": ("completion",),
}
"""Modules of `tui.commands` with the commands each adds, in the order of `--help`: a command loads only its own."""

_EXIT_CODES = """
exit codes:
  0  done, or answered
  1  the answer is no: a check, a command or a run failed, a stop is unconfirmed
  2  wrong usage; no such run, slice or file; refused by --read-only
  3  the cloud or a worker is out of reach; what is known is printed
  130  interrupted
"""
_HOLD_EVERYWHERE = "Options that hold everywhere, as --json, --profile and --zone: tpu-tui --help"
_HELP = "help"
"""`tpu-tui help launch` is `tpu-tui launch --help`, as other tools have it."""


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands whose own `--help` begins with the sentence that the list of commands has for them."""

    def add_parser(self, name: str, **options: Any) -> Any:
        sentence = options["help"]
        options.setdefault("description", f"{sentence[0].upper()}{sentence[1:]}.")
        return super().add_parser(name, epilog=_HOLD_EVERYWHERE, **options)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose second column begins behind the longest command: argparse forgets how far commands are indented."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        for below in getattr(action, "_choices_actions", ()):
            self._action_max_length = max(self._action_max_length, len(below.dest) + 2 * self._indent_increment)


class _Parser(argparse.ArgumentParser):
    """argparse with errors in our voice: the sentence first, then where help is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", "parsers", _Commands)

    def error(self, message: str) -> NoReturn:
        self.refuse(message.removeprefix("argument "))

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """argparse keeps silent about what it could not print; help that went nowhere is no success."""
        if file is not None and file is sys.stdout:
            with stdio.stdout_named():
                file.write(message)
        else:
            super()._print_message(message, file)

    def refuse(self, message: str, remedy: str = "") -> NoReturn:
        """End with 2: what is wrong, and what was probably meant or where help is."""
        self.exit(2, f"tpu-tui: {message}\n  → {remedy or f'{self.prog} --help'}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices, shown = [str(choice) for choice in action.choices], one_line(str(value))
        if action.dest == "command":
            self.refuse(f"no such command: {shown}", command_meant(shown, choices))
        if action.dest == "action":
            there_are = f"there {'are' if len(choices) > 1 else 'is'}: {', '.join(choices)}"
            self.refuse(f"no such action of {self.prog}: {shown}", word_meant(shown, choices) or there_are)
        name = "/".join(action.option_strings) or action.metavar or action.dest
        self.refuse(f"{name}: {shown!r} is none of {', '.join(choices)}", word_meant(shown, choices))


def options_that_hold_everywhere() -> _Parser:
    """Options accepted before or after the command, up to `--`."""
    parser = _Parser(add_help=False, allow_abbrev=False, prog="tpu-tui")
    group = parser.add_argument_group("options that hold everywhere")
    group.add_argument("--profile", help="settings kept under this name")
    group.add_argument("--project", help="Google Cloud project")
    group.add_argument("--zone", action="append", help="zone to look in; may be repeated (default: every zone)")
    group.add_argument(
        "--hosts", metavar="FILE", type=file, help="SSH machines instead of the API: one worker a line"
    )
    group.add_argument("--user", help="user to log in as")
    group.add_argument("--identity", metavar="FILE", type=file, help="private SSH key")
    group.add_argument("--known-hosts", metavar="FILE", type=file, help="host keys to trust, as OpenSSH keeps them")
    group.add_argument(
        "--host-keys", choices=("strict", "accept-new"), help="about a host key not seen before (default: strict)"
    )
    group.add_argument(
        "--read-only", action="store_true", default=None, help="refuse whatever changes or costs something"
    )
    group.add_argument("--json", action="store_true", help="answer as JSON on stdout; all else goes to stderr")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def build_parser(command: str | None = None) -> _Parser:
    """The whole command line, for parsing and for `--help`; with a command that there is, only its part of it."""
    families = [name for name, added in FAMILIES.items() if command in added]
    parser = _Parser(
        prog="tpu-tui",
        description="See, check, launch, watch, stop and report training runs on Cloud TPU pods.\n"
        "Without a command it opens the console; `tpu-tui help COMMAND` tells about one.",
        epilog=None if families else _everywhere_help() + _EXIT_CODES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tpu-tui {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for family in families or FAMILIES:
        importlib.import_module(f"tui.commands.{family}").add_commands(commands)
    return parser


def everything() -> argparse.ArgumentParser:
    """The whole command line with the options that hold everywhere at every command, as they may be typed."""
    whole, shared = build_parser(), options_that_hold_everywhere()
    waiting: list[argparse.ArgumentParser] = [whole]
    while waiting:
        parser = waiting.pop()
        waiting += commands_of(parser).values()
        parser._add_container_actions(shared)
    return whole


def _everywhere_help() -> str:
    text = options_that_hold_everywhere().format_help()
    return text[text.index("options that hold everywhere") :]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the words of a command line; what follows `--` is the job's and is left untouched as `args.argv`."""
    cut = words.index(_COMMAND_SEPARATOR) if _COMMAND_SEPARATOR in words else len(words)
    shared = options_that_hold_everywhere()
    everywhere, rest = shared.parse_known_args(list(words[:cut]))
    if rest[:1] == [_HELP]:
        rest = [*rest[1:], "--help"]
    parser = build_parser(rest[0] if rest else None)
    _refuse_unknown_option(rest, shared, parser)
    _print_help_of_word(rest, parser)
    args, left_over = parser.parse_known_args(rest)
    _take_further_words(args, left_over, parser)
    args.argv = [as_text(word) for word in words[cut + 1 :]]
    args.everywhere = everywhere
    if args.argv and not getattr(args, "takes_job", False):
        parser.error(f"{args.command or 'the console'} takes no command after --")
    return args


def _print_help_of_word(words: list[str], parser: _Parser) -> None:
    """Print the help of a word that a command parses itself, as `runs delete --help`, and end."""
    asked = asked_of(words, parser)
    own = asked.get_default("help_of") if asked else None
    if own and words[1:2] and words[1] in own and {"-h", "--help"} & {*words[2:]}:
        own[words[1]].parse_args(["--help"])


def _refuse_unknown_option(words: list[str], shared: _Parser, parser: _Parser) -> None:
    """Name an option that is none before argparse takes its value for one of the command's words."""
    asked = asked_of(words, parser)
    unknown = unknown_option(words, shared, asked) if asked else None
    takes_job = asked is not None and asked.get_default("takes_job")
    if takes_job and unknown and not unknown[0].startswith("--"):
        return  # `exec SLICE ls -l`: a job's, for which argparse tells where it goes
    if asked and unknown:
        behind = f"{asked.prog} --help; the options of a job's command go behind --, with the command"
        help_ = behind if takes_job else f"{asked.prog} --help"
        parser.refuse(f"no such option: {unknown[0]}", unknown[1] or help_)


def _take_further_words(args: argparse.Namespace, words: list[str], parser: _Parser) -> None:
    """Give a command that takes any number of words (`args.many` names them) those that stood behind an option.

    argparse gives a positional argument one unbroken row of words only.
    """
    many = getattr(args, "many", None)
    if many and not any(word.startswith("-") and word != "-" for word in words):
        setattr(args, many, [*getattr(args, many), *words])
    elif words:
        if args.command:
            parser.prog = f"{parser.prog} {args.command}"
        behind = f"put the command behind --: {parser.prog} {getattr(args, 'slice', '')} -- {' '.join(words)}"
        parser.refuse(
            f"unrecognized arguments: {' '.join(words)}", behind if getattr(args, "takes_job", False) else ""
        )


def flags(everywhere: argparse.Namespace) -> dict[str, Any]:
    """The options that hold everywhere which were given, by the names of the settings they set."""
    return {
        name: value for name, value in vars(everywhere).items() if value is not None and name not in ("json", "debug")
    }


def full_name(args: argparse.Namespace) -> str:
    """The command as it was typed, its action with it: `slices delete`."""
    return " ".join(filter(None, (args.command, getattr(args, "action", None))))

"""The command line, read: options that hold everywhere, the commands, and the words after `--`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tui import __version__

_COMMAND_SEPARATOR = "--"

FAMILIES = {
    "slices": ("slices", "workers", "check", "exec", "sync", "config"),
    "keys": ("keys",),
    "runs": ("launch", "runs", "status", "attach", "open", "stop"),
    "logs": ("cores", "logs", "report", "dialect", "replay"),
    "compare": ("compare",),
    "plan": ("plan",),
    "local": ("local", "demo"),
    "serve": ("serve",),
}
"""Modules of `tui.commands` with the commands each adds, in the order of `--help`: a command loads only its own."""

_EXIT_CODES = """
exit codes:
  0  done, or answered
  1  the answer is no: a check, a command or a run failed, a stop is unconfirmed
  2  wrong usage; no such run, slice or file; refused by --read-only
  3  the cloud or a worker is out of reach; what is known is printed all the same
  130  interrupted
"""
_HOLD_EVERYWHERE = "Options that hold everywhere, as --json, --profile and --zone: tpu-tui --help"


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands whose own `--help` begins with the sentence that the list of commands has for them."""

    def add_parser(self, name: str, **options: Any) -> Any:
        sentence = options["help"]
        options.setdefault("description", f"{sentence[0].upper()}{sentence[1:]}.")
        return super().add_parser(name, epilog=_HOLD_EVERYWHERE, **options)


class _Parser(argparse.ArgumentParser):
    """argparse with errors in our voice: the sentence first, then where help is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", "parsers", _Commands)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tpu-tui: {message}\n  → {self.prog} --help\n")


def _options_that_hold_everywhere() -> argparse.ArgumentParser:
    """Options accepted before or after the command, up to `--`."""
    parser = _Parser(add_help=False, allow_abbrev=False, prog="tpu-tui")
    group = parser.add_argument_group("options that hold everywhere")
    group.add_argument("--profile", help="settings kept under this name")
    group.add_argument("--project", help="Google Cloud project")
    group.add_argument("--zone", action="append", help="zone to look in; may be repeated (default: every zone)")
    group.add_argument(
        "--hosts", metavar="FILE", type=Path, help="SSH machines instead of the API: one worker a line"
    )
    group.add_argument("--user", help="user to log in as")
    group.add_argument("--identity", metavar="FILE", type=Path, help="private SSH key")
    group.add_argument("--known-hosts", metavar="FILE", type=Path, help="host keys to trust, as OpenSSH keeps them")
    group.add_argument(
        "--host-keys", choices=("strict", "accept-new"), help="what to do with a host key not seen before"
    )
    group.add_argument(
        "--read-only", action="store_true", default=None, help="refuse whatever changes or costs something"
    )
    group.add_argument("--json", action="store_true", help="answer as JSON on stdout; all else goes to stderr")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, for parsing and for `--help`; with a command that there is, only its part of it."""
    parser = _Parser(
        prog="tpu-tui",
        description="See, check, launch, watch, stop and report training runs on Cloud TPU pods. "
        "Without a command it opens the console.",
        epilog=_everywhere_help() + _EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tpu-tui {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for family in [name for name, added in FAMILIES.items() if command in added] or FAMILIES:
        importlib.import_module(f"tui.commands.{family}").add_commands(commands)
    return parser


def _everywhere_help() -> str:
    text = _options_that_hold_everywhere().format_help()
    return text[text.index("options that hold everywhere") :]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the words of a command line; what follows `--` is the job's and is left untouched as `args.argv`."""
    cut = words.index(_COMMAND_SEPARATOR) if _COMMAND_SEPARATOR in words else len(words)
    everywhere, rest = _options_that_hold_everywhere().parse_known_args(list(words[:cut]))
    parser = build_parser(rest[0] if rest else None)
    args, left_over = parser.parse_known_args(rest)
    _take_further_words(args, left_over, parser)
    args.argv = list(words[cut + 1 :])
    args.everywhere = everywhere
    if args.argv and not getattr(args, "takes_job", False):
        parser.error(f"{args.command or 'the console'} takes no command after --")
    return args


def _take_further_words(args: argparse.Namespace, words: list[str], parser: argparse.ArgumentParser) -> None:
    """Give a command that takes any number of words (`args.many` names them) those that stood behind an option.

    argparse gives a positional argument one unbroken row of words only.
    """
    many = getattr(args, "many", None)
    if many and not any(word.startswith("-") and word != "-" for word in words):
        setattr(args, many, [*getattr(args, many), *words])
    elif words:
        if args.command:
            parser.prog = f"{parser.prog} {args.command}"
        parser.error(f"unrecognized arguments: {' '.join(words)}")


def flags(everywhere: argparse.Namespace) -> dict[str, Any]:
    """The options that hold everywhere which were given, by the names of the settings they set."""
    return {
        name: value for name, value in vars(everywhere).items() if value is not None and name not in ("json", "debug")
    }


def full_name(args: argparse.Namespace) -> str:
    """The command as it was typed, its action with it: `slices delete`."""
    return " ".join(filter(None, (args.command, getattr(args, "action", None))))

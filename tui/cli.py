"""The `tpu-tui` command: arguments in, calls, exit codes out."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tui import __version__
from tui.commands import streams
from tui.commands.output import Output
from tui.errors import TpuTuiError
from tui.printable import one_line

EXIT_INTERRUPTED = 130
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


class _Parser(argparse.ArgumentParser):
    """argparse with errors in our voice: the sentence first, then where help is."""

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
        epilog=_everywhere_help(),
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
    args = parser.parse_args(rest)
    args.argv = list(words[cut + 1 :])
    args.everywhere = everywhere
    if args.argv and not getattr(args, "takes_job", False):
        parser.error(f"{args.command or 'the console'} takes no command after --")
    return args


def _flags(everywhere: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value for name, value in vars(everywhere).items() if value is not None and name not in ("json", "debug")
    }


def _run_to_the_end(args: argparse.Namespace, out: Output) -> int:
    """Run a command on an event loop of its own."""
    import asyncio

    try:
        return asyncio.run(_run(args, out))
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED


async def _run(args: argparse.Namespace, out: Output) -> int:
    import asyncio
    import signal

    from tui.commands.prompter import prompter_for_terminal
    from tui.operator import Operator
    from tui.settings import load

    if sys.version_info < (3, 11):  # later asyncio.run itself turns the first Ctrl-C into a cancellation
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    settings = load(_flags(args.everywhere))
    if settings.read_only and getattr(args, "changes", False):
        from tui.errors import UsageError

        raise UsageError(
            f"{args.command} is refused by --read-only", remedy="leave --read-only out to let it change things"
        )
    operator = Operator(settings, prompter=prompter_for_terminal())
    try:
        return int(await args.run(args, operator, out))
    finally:
        await operator.close()


def _close_broken_pipe() -> None:
    """Point stdout at /dev/null, so that the interpreter's last flush has nobody to complain to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError, out: Output) -> int:
    """Tell what the machine refused: no room, no right, a file where a directory should be."""
    try:
        sys.stdout.flush()
    except OSError:
        _close_broken_pipe()
    where = f"{error.filename}: " if error.filename else ""
    why = one_line(f"{where}{error.strerror or error}")
    out.problem(TpuTuiError("this machine refused", why=why, remedy="--debug tells where"))
    return TpuTuiError.exit_code


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 the answer is no, 2 usage, 3 out of reach, 130 interrupted."""
    streams.make_usable()
    args = parse(sys.argv[1:] if words is None else list(words))
    out = Output(as_json=args.everywhere.json)
    try:
        if args.command is None:
            from tui.commands.console import open_console

            return open_console(_flags(args.everywhere))
        if getattr(args, "run_blocking", None):
            return int(args.run_blocking(args, _flags(args.everywhere), out))
        code = None
        if getattr(args, "run_on_file", None):
            code = args.run_on_file(args, _flags(args.everywhere), out)
        if code is None:
            code = _run_to_the_end(args, out)
        sys.stdout.flush()
        return code
    except TpuTuiError as error:
        if args.everywhere.debug:
            raise
        out.problem(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _close_broken_pipe()
        return 0
    except OSError as error:
        if args.everywhere.debug:
            raise
        return _refused(error, out)


if __name__ == "__main__":
    sys.exit(main())

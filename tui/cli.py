"""The `tpu-tui` command: parse arguments, run the command, return its exit code.

Little is imported before `main` begins: it first makes Ctrl-C quiet at any moment.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tui.commands.terminal.output import Output
    from tui.errors import TpuTuiError
    from tui.settings import Settings

EXIT_INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 failed, 2 usage, 3 unreachable, 130 interrupted."""
    if sys.platform == "win32":
        print("tpu-tui: Windows is not supported\n  → install and run it in WSL", file=sys.stderr)
        return 2
    if words is not None:
        return _code_of(words)
    _quit_on_ctrl_c()
    try:
        return _code_of(sys.argv[1:])
    finally:
        from tui.procs.gc_policy import freeze_existing_objects

        freeze_existing_objects()


def _code_of(words: Sequence[str]) -> int:
    try:
        return _main(list(words))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _quit_on_ctrl_c() -> None:
    """End the process silently on Ctrl-C, which could otherwise interrupt an import.

    An ignored SIGINT stays ignored: shells ignore it for commands started with `&`.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)


def _quit(_signal: int, _frame: object) -> None:
    os._exit(EXIT_INTERRUPTED)


class _RestoringSigint:
    """Restores the current handler of Ctrl-C at the end."""

    def __enter__(self) -> None:
        import signal

        self._before = signal.getsignal(signal.SIGINT)

    def __exit__(self, *_: object) -> None:
        import signal

        if signal.getsignal(signal.SIGINT) is not self._before:
            signal.signal(signal.SIGINT, self._before)


class _RaisingOnCtrlC(_RestoringSigint):
    """Turns Ctrl-C into an exception while a command works, so that the command can clean up."""

    def __enter__(self) -> None:
        import signal

        super().__enter__()
        if self._before is _quit:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _main(words: list[str]) -> int:
    from tui.commands.terminal import stdio
    from tui.commands.terminal.output import Output

    stdio.make_usable()
    with stdio.silent_on_closed_pipe():
        try:
            args = _read(words)
        except BrokenPipeError:
            raise
        except OSError as error:
            return _report_failure(_as_project_error(error), Output())
        return _run_command(args, Output(as_json=args.everywhere.json))
    return 0


def _read(words: list[str]) -> argparse.Namespace:
    """Parse the command line; --help and --version exit here. Raises OSError where their text cannot be printed."""
    from tui.commands.parser.parser import parse

    try:
        return parse(words)
    except SystemExit:
        sys.stdout.flush()
        raise


def _run_command(args: argparse.Namespace, out: Output) -> int:
    """Run the command and flush its output; errors are printed here only."""
    from tui.errors import TpuTuiError

    try:
        code = _dispatch(args, out)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except (TpuTuiError, OSError, UnicodeEncodeError) as error:
        if args.everywhere.debug:
            import traceback

            traceback.print_exc()
        return _report_failure(_as_project_error(error), out)


def _report_failure(problem: TpuTuiError, out: Output) -> int:
    """Print the error and return its exit code, even where stderr is closed."""
    from tui.commands.terminal import stdio

    with stdio.silent_on_closed_pipe():
        out.problem(problem)
    return problem.exit_code


def _dispatch(args: argparse.Namespace, out: Output) -> int:
    """Run the command as its parser says: as the console, blocking, on a file, or on an event loop."""
    from tui.commands.parser.parser import flags

    given = flags(args.everywhere)
    if args.command is None:
        from tui.commands.console import open_console

        with _RaisingOnCtrlC():
            return open_console(given)
    from tui.procs.gc_policy import collect_rarely

    collect_rarely()
    if getattr(args, "run_blocking", None):
        if _changes_something(args):
            from tui.settings import load

            _refuse_if_read_only(args, load(given))
        with _RaisingOnCtrlC():
            return int(args.run_blocking(args, given, out))
    # A small saved log takes 0.1 s of CPU here; loading asyncio and the operator would take another 0.4 s.
    if getattr(args, "run_on_file", None):
        with _RaisingOnCtrlC():
            code = args.run_on_file(args, given, out)
        if code is not None:
            return int(code)
    return _run_on_a_loop(args, given, out)


def _run_on_a_loop(args: argparse.Namespace, given: Mapping[str, Any], out: Output) -> int:
    """Run an asynchronous command to its end, on a new event loop."""
    import asyncio

    from tui.commands.terminal.prompts import prompter_for_terminal
    from tui.operator import Operator
    from tui.settings import load
    from tui.settings.home import loose_home

    settings = load(given)
    if _changes_something(args):
        _refuse_if_read_only(args, settings)
    if loose := loose_home(settings.home):
        out.note(f"warning: {loose}")

    async def run() -> int:
        _cancel_on_ctrl_c()
        async with Operator(settings, prompter=prompter_for_terminal()) as operator:
            return int(await args.run(args, operator, out))

    try:
        with _RestoringSigint():
            return asyncio.run(run())
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED


def _cancel_on_ctrl_c() -> None:
    """Cancel this task at the first Ctrl-C and wake its loop; end the process at the second."""
    import asyncio
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def cancel(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, _quit)
        task.cancel()
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None)

    signal.signal(signal.SIGINT, cancel)


def _as_project_error(error: TpuTuiError | OSError | UnicodeEncodeError) -> TpuTuiError:
    """Convert an OS or encoding error to a TpuTuiError."""
    from tui.commands.terminal.refusals import encoding_error, explain_os_error

    if isinstance(error, OSError):
        return explain_os_error(error)
    return encoding_error(error) if isinstance(error, UnicodeEncodeError) else error


def _changes_something(args: argparse.Namespace) -> bool:
    return getattr(args, "changes", False) and not getattr(args, "dry_run", False)


def _refuse_if_read_only(args: argparse.Namespace, settings: Settings) -> None:
    from tui.commands.parser.parser import full_name
    from tui.commands.terminal.refusals import read_only_error

    if settings.read_only:
        raise read_only_error(full_name(args), settings)


if __name__ == "__main__":
    sys.exit(main())

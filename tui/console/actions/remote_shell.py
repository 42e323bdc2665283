"""Actions on a slice's workers over SSH: a shell on one of them, one command on many."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from tui.aio.threads import run_in_thread
from tui.console.actions.slices import NO_SLICE
from tui.console.data.exec_progress import ExecProgress
from tui.console.data.tasks import to_problem
from tui.console.screens.exec import ExecDialog
from tui.errors import UsageError
from tui.pod.slice import Slice
from tui.procs.child_signals import kill_child

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp
    from tui.errors import TpuTuiError
    from tui.operator import RunDirectory

SSH_FAILURE_EXIT_CODE = 255
"""What ssh itself ends with; anything else is the shell's own exit code."""
EXEC = "exec"
MAX_EARLIER_COMMANDS = 100


class RemoteShell:
    """Opens shells and runs commands; remembers the commands, newest first."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._earlier: list[str] = []

    def open_shell(self, target: Slice | RunDirectory | None, worker: int | None) -> None:
        """Leave the screen to an SSH session on a worker, and come back."""
        self._with_slice(target, "shell", lambda slice_: self._open_shell(slice_, worker))

    def _open_shell(self, slice_: Slice | None, worker: int | None) -> None:
        if slice_ is None or not slice_.workers:
            self._app.notify("No worker selected", timeout=3)
            return
        index = worker if worker is not None else slice_.workers[0].index
        self._app.tasks.start("shell", self._run_shell(slice_, index), self._app.show_error)

    async def _run_shell(self, slice_: Slice, worker: int) -> None:
        argv = await self._app.operator.slices.ssh_command(slice_, worker)
        try:
            with self._app.suspend(), _leaving_ctrl_c_to_programs():
                print(f"{shlex.join(argv)}\nType exit to return to tpu-tui.", file=sys.__stderr__, flush=True)
                if await _run(argv) == SSH_FAILURE_EXIT_CODE:
                    print("SSH or its connection failed. Press Enter to return to tpu-tui.", file=sys.__stderr__)
                    await run_in_thread("enter", sys.stdin.readline)
        except SuspendNotSupported as error:
            raise UsageError("a shell needs a terminal of its own", remedy=shlex.join(argv)) from error
        except OSError as error:
            raise UsageError(f"cannot start {argv[0]}", why=error.strerror or str(error)) from error

    def ask_command(self, target: Slice | RunDirectory | None) -> None:
        """Ask for a command, and show what the workers answer."""
        self._with_slice(target, EXEC, self._ask_command)

    def _ask_command(self, slice_: Slice | None) -> None:
        if slice_ is None or not slice_.workers:
            self._app.notify("The slice has no workers" if slice_ else NO_SLICE, timeout=3)
            return
        dialog = ExecDialog(slice_, partial(self._start, slice_), self._cancel, earlier=self._earlier)
        self._app.push_screen(dialog, lambda _: self._cancel())

    def _with_slice(
        self, target: Slice | RunDirectory | None, name: str, then: Callable[[Slice | None], None]
    ) -> None:
        """Pass the slice on, that of a run once it is found."""
        if isinstance(target, Slice) or target is None:
            then(target)
            return
        run = target.run

        async def find() -> None:
            then(await self._app.operator.slices.get(run.slice_path))

        self._app.tasks.start(f"{name}: find {run.slice}", find(), self._app.show_error)

    def _start(self, slice_: Slice, command: str, ranks: Sequence[int]) -> ExecProgress:
        self._earlier = [command, *(old for old in self._earlier if old != command)][:MAX_EARLIER_COMMANDS]
        progress = ExecProgress(slice_, command, ranks, self._app.store.clock())
        self._app.tasks.start(EXEC, self._execute(progress))
        return progress

    def _cancel(self) -> None:
        self._app.tasks.cancel(EXEC)

    async def _execute(self, progress: ExecProgress) -> None:
        """Run the command; if it is cancelled, the progress keeps the output so far."""
        argv = ("sh", "-c", progress.command)
        problem: TpuTuiError | None = None
        slices = self._app.operator.slices
        answering = slices.execute(progress.slice, argv, progress.ranks, on_output=progress.record_output)
        try:
            async with contextlib.aclosing(answering):
                async for answer in answering:
                    progress.record_answer(answer)
        except Exception as error:
            problem = to_problem(error, EXEC)
        finally:
            progress.finish(problem)


@contextlib.contextmanager
def _leaving_ctrl_c_to_programs() -> Iterator[None]:
    """Let the terminal's Ctrl-C end the program that has the terminal, not the console too."""
    previous = signal.signal(signal.SIGINT, lambda *_: None)  # ignoring it would be inherited by the program
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


async def _run(argv: Sequence[str]) -> int:
    """Run a program at the terminal and return its exit code; cancelling ends it. Raises OSError."""
    program = await asyncio.create_subprocess_exec(*argv, stderr=sys.__stderr__)
    try:
        return await program.wait()
    finally:
        kill_child(program, signal.SIGTERM)

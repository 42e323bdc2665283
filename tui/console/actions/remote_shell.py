"""Keys that act on a slice's workers by SSH: a shell on one of them, one command on many."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from tui.errors import TpuTuiError, UsageError

if TYPE_CHECKING:
    from tui.console.app import ConsoleApp
    from tui.console.render.exec_progress import Execution
    from tui.pod.slice import Slice
    from tui.runs.record.run_directory import RunDirectory

SSH_FAILED = 255
"""What ssh itself ends with; anything else is the shell's own exit code."""
EXEC = "exec"
MOST_EARLIER = 100


class OnWorkers:
    """Holds nothing but the commands that were given, newest first."""

    def __init__(self, app: ConsoleApp) -> None:
        self.app = app
        self._earlier: list[str] = []

    def shell(self, slice_: Slice | None, worker: int | None) -> None:
        """Leave the screen to an SSH session on a worker, and come back."""
        if slice_ is None or not slice_.workers:
            self.app.notify("no worker is chosen", timeout=3)
            return
        index = worker if worker is not None else slice_.workers[0].index
        self.app.tasks.start("shell", self._shell(slice_, index), self.app.flows.say)

    async def _shell(self, slice_: Slice, worker: int) -> None:
        argv = await self.app.operator.slices.ssh_command(slice_, worker)
        try:
            with self.app.suspend():
                print(f"{shlex.join(argv)}\nexit comes back to tpu-tui", file=sys.__stderr__, flush=True)
                ended = subprocess.run(argv, check=False, stderr=sys.__stderr__)  # noqa: ASYNC221 - the screen is away
                if ended.returncode == SSH_FAILED:
                    print("ssh failed, or its connection did; enter comes back to tpu-tui", file=sys.__stderr__)
                    sys.stdin.readline()
        except SuspendNotSupported as error:
            raise UsageError("a shell needs a terminal of its own", remedy=shlex.join(argv)) from error
        except OSError as error:
            raise UsageError(f"{argv[0]} does not start", why=error.strerror or str(error)) from error

    def shell_for_run(self, directory: RunDirectory | None, worker: int | None) -> None:
        """A shell on a worker of a run's slice."""
        self._with_slice(directory, "shell", lambda slice_: self.shell(slice_, worker or 0))

    def execute(self, slice_: Slice | None) -> None:
        """Ask for a command, and show what the workers answer."""
        if slice_ is None or not slice_.workers:
            self.app.notify("the slice has no workers" if slice_ else "no slice is chosen", timeout=3)
            return

        from tui.console.screens.exec import ExecDialog

        def begin(command: str, ranks: Sequence[int]) -> Execution:
            return self._begin(slice_, command, ranks)

        dialog = ExecDialog(slice_, begin, self._give_up, earlier=self._earlier)
        self.app.push_screen(dialog, lambda _: self._give_up())

    def execute_for_run(self, directory: RunDirectory | None) -> None:
        """The same on the slice of a run."""
        self._with_slice(directory, EXEC, self.execute)

    def _with_slice(self, directory: RunDirectory | None, name: str, then: Callable[[Slice], None]) -> None:
        if directory is None:
            self.app.notify("a saved log has no workers to log in to", timeout=3)
            return
        run = directory.run

        async def find() -> None:
            then(await self.app.operator.slices.get(f"{run.zone}/{run.slice}" if run.zone else run.slice))

        self.app.tasks.start(f"{name}: find {run.slice}", find(), self.app.flows.say)

    def _begin(self, slice_: Slice, command: str, ranks: Sequence[int]) -> Execution:
        from tui.console.render.exec_progress import Execution

        self._earlier = [command, *(other for other in self._earlier if other != command)][:MOST_EARLIER]
        execution = Execution(slice_, command, ranks, self.app.store.clock())
        self.app.tasks.start(EXEC, self._execute(execution))
        return execution

    def _give_up(self) -> None:
        self.app.tasks.cancel(EXEC)

    async def _execute(self, execution: Execution) -> None:
        """Ended by `_give_up`, it keeps what came until then."""
        argv = ("sh", "-c", execution.command)
        problem: TpuTuiError | None = None
        answering = self.app.operator.slices.execute(execution.slice, argv, execution.ranks, on_output=execution.hear)
        try:
            async with contextlib.aclosing(answering):
                async for answer in answering:
                    execution.take(answer)
        except TpuTuiError as error:
            problem = error
        finally:
            execution.end(problem)

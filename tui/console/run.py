"""The one call that opens the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.console.app import ConsoleApp
from tui.console.platform.stderr_redirect import redirect_stderr
from tui.procs.gc_policy import freeze_existing_objects

if TYPE_CHECKING:
    from tui.logs.saved_log import SavedLog
    from tui.operator import Operator, RunDirectory


def run_console(
    operator: Operator,
    *,
    open_run: RunDirectory | None = None,
    replay: SavedLog | None = None,
    demo: bool = False,
    default_command: Sequence[str] = (),
) -> int:
    """Open the console and return its exit code once it is closed; the operator is closed with it.

    `open_run` shows that run first, `replay` only a saved log; `demo` says that the pod ends with the console, and
    `default_command` is what the launch dialog begins with.
    """
    app = ConsoleApp(operator, open_run=open_run, replay=replay, demo=demo, default_command=default_command)
    freeze_existing_objects()
    with redirect_stderr(operator.settings.home):
        app.run()
    return app.return_code or 0

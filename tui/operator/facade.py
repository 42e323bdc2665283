"""`Operator`: everything tpu-tui can do, a room for each noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.operator.connections import Connections
from tui.operator.keys import Keys
from tui.operator.launches import Launches
from tui.operator.logs import Logs
from tui.operator.reports import Reports
from tui.operator.runs import Runs
from tui.operator.slices import Slices

if TYPE_CHECKING:
    from tui.settings import Settings
    from tui.ssh.config.access import Prompter


class Operator:
    """One person's settings, and what can be done with them.

    Everything that waits is asynchronous and can be cancelled; nothing prints. Errors are `TpuTuiError`s.
    """

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.connections = Connections(settings, prompter=prompter)
        self.slices = Slices(self.connections)
        self.keys = Keys(self.connections)
        self.launches = Launches(self.connections)
        self.logs = Logs(settings)
        self.runs = Runs(self.connections, self.slices, self.logs)
        self.reports = Reports(self.connections, self.runs, self.logs)

    @property
    def prompter(self) -> Prompter | None:
        """Who is asked for passphrases, one-time codes and unknown host keys; None where no one can answer."""
        return self.connections.prompter

    @prompter.setter
    def prompter(self, prompter: Prompter) -> None:
        self.connections.prompter = prompter

    async def close(self) -> None:
        """Close connections; runs go on."""
        await self.connections.close()

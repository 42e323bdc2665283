"""`Operator`: everything tpu-tui can do, grouped by noun."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tui.operator.connections import Connections

if TYPE_CHECKING:
    from tui.operator.files import Files
    from tui.operator.keys import Keys
    from tui.operator.launches import Launches
    from tui.operator.logs import Logs
    from tui.operator.reports import Reports
    from tui.operator.resources.groups import Groups
    from tui.operator.resources.resources import Resources
    from tui.operator.runs import Runs
    from tui.operator.slices import Slices
    from tui.settings import Settings
    from tui.ssh.config.access import Prompter


class Operator:
    """The user's settings, and everything that can be done with them.

    Methods that wait are asynchronous and can be cancelled; none of them prints. Errors are `TpuTuiError`s. A command
    starts without the libraries that it does not use, because each group is loaded when it is first used.
    """

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.connections = Connections(settings, prompter=prompter)

    @cached_property
    def slices(self) -> Slices:
        """Slices and their workers."""
        from tui.operator.slices import Slices

        return Slices(self.connections, lambda: self.groups.change_slice)

    @cached_property
    def files(self) -> Files:
        """Files of workers."""
        from tui.operator.files import Files

        return Files(self.connections)

    @cached_property
    def keys(self) -> Keys:
        """The user's SSH key on slices."""
        from tui.operator.keys import Keys

        return Keys(self.connections)

    @cached_property
    def launches(self) -> Launches:
        """Planning, checking and starting runs."""
        from tui.operator.launches import Launches

        return Launches(self.connections)

    @cached_property
    def logs(self) -> Logs:
        """Saved logs and dialects."""
        from tui.operator.logs import Logs

        return Logs(self.settings)

    @cached_property
    def runs(self) -> Runs:
        """Runs: list, find, follow, stop and delete them."""
        from tui.operator.runs import Runs

        return Runs(self.connections, lambda: self.logs)

    @cached_property
    def resources(self) -> Resources:
        """What costs money: list and delete it."""
        from tui.operator.resources.resources import Resources

        return Resources(self.connections, self.runs)

    @cached_property
    def groups(self) -> Groups:
        """Managed instance groups: list, create, resize and delete them."""
        from tui.operator.resources.groups import Groups

        return Groups(self.connections, self.resources, self.slices)

    @cached_property
    def reports(self) -> Reports:
        """Status documents, reports and comparisons."""
        from tui.operator.reports import Reports

        return Reports(self.connections, self.runs, self.logs)

    @property
    def prompter(self) -> Prompter | None:
        """The prompter for passphrases, one-time codes and unknown host keys; None where no one can answer."""
        return self.connections.prompter

    @prompter.setter
    def prompter(self, prompter: Prompter) -> None:
        self.connections.prompter = prompter

    async def __aenter__(self) -> Operator:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        await self.close()

    async def close(self) -> None:
        """Close connections; runs continue."""
        await self.connections.close()

"""What the screen of resources shows: the listing, renewed while the screen is open, and deletions in progress."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tui.console.data.store import DataSource, Store
from tui.console.data.tasks import to_problem
from tui.errors import TpuTuiError
from tui.pod.resources import CloudResource

if TYPE_CHECKING:
    from tui.operator import Operator

RESOURCES: DataSource[tuple[CloudResource, ...]] = DataSource("resources")
INTERVAL_S = 60.0
"""Seconds between two listings; each is a request to every API."""
MAX_PROGRESS_LINES = 10
"""Newest lines of a deletion that are shown."""


class ResourcePoller:
    """Lists the resources while it runs, at once when `refresh` is called."""

    def __init__(self, operator: Operator, store: Store) -> None:
        self._operator = operator
        self._store = store
        self._wanted = asyncio.Event()

    def refresh(self) -> None:
        """List the resources now."""
        self._wanted.set()

    async def run(self) -> None:
        """List the resources again and again."""
        while True:
            self._wanted.clear()
            self._store.set_busy(RESOURCES, "listing…")
            try:
                listing = await self._operator.resources.list_all()
                self._store.put(RESOURCES, listing.resources, listing.problems)
            except Exception as error:
                self._store.fail(RESOURCES, to_problem(error, "listing the resources"))
            finally:
                self._store.set_busy(RESOURCES, "")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), INTERVAL_S)


class ResourceDeletion:
    """The deletion of one resource. It outlives the dialog that shows it."""

    def __init__(self, resource: CloudResource) -> None:
        self.resource = resource
        self.lines: list[str] = []
        self.problem: TpuTuiError | None = None
        self.is_done = False

    @property
    def text(self) -> str:
        """Return the newest lines, newest last, and the error if there is one."""
        lines = self.lines[-MAX_PROGRESS_LINES:]
        if self.problem is not None:
            return "\n".join([*lines, str(self.problem)])
        lines = lines or ["sending the request…"]
        return "\n".join(lines if self.is_done else [*lines, "", "Esc closes this window; the deletion continues."])

    async def run(self, operator: Operator) -> None:
        """Delete the resource."""
        try:
            async for step in operator.resources.delete([self.resource]):
                if step.text:
                    self.lines.append(step.text)
                self.problem = step.problem or self.problem
        except TpuTuiError as error:
            self.problem = error
        finally:
            self.is_done = True

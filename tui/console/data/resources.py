"""What the screen of resources shows: the listing, renewed while the screen is open."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tui.aio.timeouts import within
from tui.console.data.store import DataSource, Store
from tui.console.data.tasks import to_problem
from tui.pod.resources import CloudResource

if TYPE_CHECKING:
    from tui.operator import Operator

RESOURCES: DataSource[tuple[CloudResource, ...]] = DataSource("resources")
INTERVAL_S = 60.0
"""Seconds between two listings; each is a request to every API."""


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
                await within(self._wanted.wait(), INTERVAL_S)

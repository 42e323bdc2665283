"""The slice on which a run was launched, as its source reports it now."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from tui.aio.timeouts import within
from tui.cloud.inventory import Inventory
from tui.cloud.open_inventory import open_inventory
from tui.errors import TpuTuiError
from tui.pod.slice import TPU_API, Slice
from tui.runs.health.slice_diagnosis import lost_workers
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import Settings, load

API_TIMEOUT_S = 25.0
"""Timeout of a query; the explanation of a failure waits for it."""


class RunSlice:
    """Finds the slice of a run; opens no connection before the first query. `aclose` it."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._inventory: Inventory | None = None

    async def find(self) -> Slice | None:
        """Return the run's slice, None when its zone has none of that name. Raises TpuTuiError for a failed query."""
        run = self._directory.run
        return await self._open().find(run.slice, run.zone or "")

    async def explain_losses(self, slice_: Slice) -> dict[int, str]:
        """Return why single workers lost their machines, where the source knows; an error of the API is ignored."""
        run = self._directory.run
        if lost := lost_workers(run, slice_):
            since = status_of(self._directory).started or run.created
            with suppress(TpuTuiError, asyncio.TimeoutError):
                return await within(self._open().explain_losses(slice_, lost, since), API_TIMEOUT_S)
        return {}

    async def with_host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with the workers' host keys that the API vouches for. Raises CloudError."""
        return await self._open().host_keys(slice_)

    async def aclose(self) -> None:
        """Close the connection to the API."""
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            await inventory.close()

    def _open(self) -> Inventory:
        if self._inventory is None:
            self._inventory = open_inventory(slice_settings(self._directory), self._directory.run.source or TPU_API)
        return self._inventory


def slice_settings(directory: RunDirectory) -> Settings:
    """Return the settings with which a run's slice is reached. Raises UsageError for a missing or broken profile."""
    run = directory.run
    flags = {"profile": run.profile, "project": run.project, "zone": [run.zone] if run.zone else None}
    settings = load({name: value for name, value in flags.items() if value})
    return replace(settings, hosts=None) if run.zone else settings

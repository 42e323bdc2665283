"""The cloud's view of a run's slice, queried only while workers are unreachable, and less and less often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from tui.aio.backoff import backoff
from tui.aio.timeouts import within
from tui.cloud.inventory import Inventory
from tui.cloud.open_inventory import open_inventory
from tui.errors import TpuTuiError
from tui.pod.slice import INSTANCE_GROUP, TPU_API, Slice
from tui.runs.health.reachability import Reachability
from tui.runs.health.slice_diagnosis import SliceDiagnosis, diagnose, lost_workers
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import Settings, load
from tui.text.ranks import format_workers

FIRST_QUERY_PAUSE_S = 5.0
LONGEST_QUERY_PAUSE_S = 120.0
"""Pauses between two queries while workers stay unreachable: they grow from the one to the other."""
API_TIMEOUT_S = 25.0
"""Timeout of a query, for which the explanation of a failure waits."""


class SliceMonitor:
    """Queries the source of a run's slice; opens no connection before the first query.

    Its answer becomes a `note` event with the diagnosis's kind in the field `slice` and `gone`, whether it is final;
    `reachability` is informed as well. A run on machines of a hosts file has no API.
    """

    def __init__(self, directory: RunDirectory, reachability: Reachability, timeouts: KeeperTimeouts) -> None:
        self.directory = directory
        self.reachability = reachability
        self.diagnosis: SliceDiagnosis | None = None
        self._timeouts = timeouts
        self._inventory: Inventory | None = None
        self._recorded = ""
        self._asking = asyncio.Lock()

    @property
    def _source(self) -> str:
        return "Compute Engine" if self.directory.run.source == INSTANCE_GROUP else "the Cloud TPU API"

    @property
    def is_possible(self) -> bool:
        """Return whether there is an API that knows the slice."""
        return self.directory.run.zone is not None

    async def run(self) -> None:
        """Query whenever a worker has been unreachable for a while, and again as long as it is."""
        if not self.is_possible:
            return
        waits = backoff(FIRST_QUERY_PAUSE_S, LONGEST_QUERY_PAUSE_S)
        while True:
            missed = self.reachability.unreachable
            if not missed:
                waits = backoff(FIRST_QUERY_PAUSE_S, LONGEST_QUERY_PAUSE_S)
                await self.reachability.wait_for_change()
                continue
            remaining = self._timeouts.ask_after - max(
                self.reachability.seconds_unreachable(worker) for worker in missed
            )
            if remaining > 0:
                await self.reachability.wait_for_change(remaining)
                continue
            await self.query()
            await asyncio.sleep(next(waits))

    async def query(self) -> SliceDiagnosis | None:
        """Query now; return None where the API does not answer. Never raises for the API."""
        if not self.is_possible:
            return None
        async with self._asking:
            try:
                slice_ = await within(self.find_slice(), API_TIMEOUT_S)
            except TpuTuiError as error:
                await self._record_once(
                    "unknown", f"{self._source} could not be asked about the slice: {error.sentence}"
                )
                return None
            except asyncio.TimeoutError:
                await self._record_once("unknown", f"{self._source} did not answer about the slice")
                return None
            self.diagnosis = diagnosis = diagnose(self.directory.run, slice_, await self._explain_losses(slice_))
            self.reachability.give_up(diagnosis.text if diagnosis.is_final else None, diagnosis.lost)
            is_gone = diagnosis.is_final and (
                not diagnosis.lost or diagnosis.lost.issuperset(self.reachability.all_unreachable)
            )
            await self._record_once(diagnosis.kind, self._describe(diagnosis), gone=is_gone, remedy=diagnosis.remedy)
            return diagnosis

    def _describe(self, diagnosis: SliceDiagnosis) -> str:
        missed = self.reachability.unreachable
        text = f"{self._source} says: {diagnosis.text}"
        if diagnosis.kind == "ready" and missed:
            text += (
                f"; so {format_workers(missed)} crashed or hangs, or the network between here and there is at fault"
            )
        return text

    async def _record_once(self, kind: str, text: str, *, gone: bool = False, remedy: str = "") -> None:
        """Record a note, skipping an exact repeat of the last one."""
        if text != self._recorded:
            self._recorded = text
            await record(self.directory, "note", text=text, slice=kind, gone=gone, remedy=remedy)

    async def find_slice(self) -> Slice | None:
        """Return the run's slice, None when its zone has none of that name. Raises TpuTuiError for a failed query."""
        run = self.directory.run
        if self._inventory is None:
            self._inventory = open_inventory(slice_settings(self.directory), run.source or TPU_API)
        return await self._inventory.find(run.slice, run.zone or "")

    async def _explain_losses(self, slice_: Slice | None) -> dict[int, str]:
        """Return why single workers lost their machines, as far as the source knows. Never raises for the API."""
        run = self.directory.run
        lost = lost_workers(run, slice_) if slice_ is not None else []
        if slice_ is None or not lost or self._inventory is None:
            return {}
        since = status_of(self.directory).started or run.created
        with suppress(TpuTuiError, asyncio.TimeoutError):
            return await within(self._inventory.explain_losses(slice_, lost, since), API_TIMEOUT_S)
        return {}

    async def with_host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with the workers' host keys that the API vouches for. Raises CloudError."""
        assert self._inventory is not None
        return await self._inventory.host_keys(slice_)

    async def close(self) -> None:
        """Close the connection to the API."""
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            await inventory.close()


def slice_settings(directory: RunDirectory) -> Settings:
    """Return the settings that lead to a run's slice. Raises UsageError for a profile that is gone or broken."""
    run = directory.run
    flags = {"profile": run.profile, "project": run.project, "zone": [run.zone] if run.zone else None}
    settings = load({name: value for name, value in flags.items() if value})
    return replace(settings, hosts=None) if run.zone else settings

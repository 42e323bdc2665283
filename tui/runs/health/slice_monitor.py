"""Query the cloud about a run's slice while workers are unreachable, less and less often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tui.aio.backoff import backoff
from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.pod.slice import INSTANCE_GROUP
from tui.runs.health.reachability import Reachability
from tui.runs.health.run_slice import API_TIMEOUT_S, RunSlice
from tui.runs.health.slice_diagnosis import SliceDiagnosis, diagnose
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.text.ranks import format_workers

FIRST_QUERY_PAUSE_S = 5.0
LONGEST_QUERY_PAUSE_S = 120.0
"""The first and the longest pause between two queries while workers stay unreachable."""


@dataclass(eq=False)
class SliceMonitor:
    """Queries the source of a run's slice; opens no connection before the first query.

    Each diagnosis becomes a `note` event: its field `slice` is the kind, and `gone` says whether it is final.
    `reachability` is informed as well. Nothing is queried for a run on machines of a hosts file, which have no API.
    """

    directory: RunDirectory
    reachability: Reachability
    timeouts: KeeperTimeouts

    def __post_init__(self) -> None:
        self.diagnosis: SliceDiagnosis | None = None
        self._slice = RunSlice(self.directory)
        self._recorded = ""
        self._asking = asyncio.Lock()

    @property
    def _source(self) -> str:
        return "Compute Engine" if self.directory.run.source == INSTANCE_GROUP else "the Cloud TPU API"

    async def run(self) -> None:
        """Query once a worker has been unreachable for a while, and repeatedly as long as it is."""
        if self.directory.run.zone is None:
            return
        waits = backoff(FIRST_QUERY_PAUSE_S, LONGEST_QUERY_PAUSE_S)
        while True:
            missed = self.reachability.unreachable
            if not missed:
                waits = backoff(FIRST_QUERY_PAUSE_S, LONGEST_QUERY_PAUSE_S)
                await self.reachability.wait_for_change()
                continue
            remaining = self.timeouts.ask_after - max(
                self.reachability.seconds_unreachable(worker) for worker in missed
            )
            if remaining > 0:
                await self.reachability.wait_for_change(remaining)
                continue
            await self.query()
            await asyncio.sleep(next(waits))

    async def query(self) -> SliceDiagnosis | None:
        """Query now; return None if there is no API or it does not answer. Its errors are recorded, not raised."""
        if self.directory.run.zone is None:
            return None
        async with self._asking:
            try:
                slice_ = await within(self._slice.find(), API_TIMEOUT_S)
            except TpuTuiError as error:
                await self._record_once(
                    "unknown", f"{self._source} could not be queried about the slice: {error.sentence}"
                )
                return None
            except asyncio.TimeoutError:
                await self._record_once("unknown", f"{self._source} did not answer about the slice")
                return None
            losses = await self._slice.explain_losses(slice_) if slice_ is not None else {}
            self.diagnosis = diagnosis = diagnose(self.directory.run, slice_, losses)
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

    async def close(self) -> None:
        """Close the connection to the API."""
        await self._slice.aclose()

"""After a failure: who failed first and why, and what the run's policy has done to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from tui.pod.run import RunState
from tui.runs.health.reachability import Contact
from tui.runs.health.slice_diagnosis import Plight
from tui.runs.health.slice_monitor import SliceWatch
from tui.runs.keeper.failure_rules import (
    Patience,
    explain,
    failed,
    first_failure,
    is_unexplained,
    last_lines,
    names_of,
    only_lost_partners,
)
from tui.runs.keeper.leadership import Acting
from tui.runs.keeper.stop_requests import note_stop_elsewhere
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import BY_POLICY, STOP_REQUESTED, status_of
from tui.runs.worker.calls import Outcome
from tui.text.durations import format_duration

_DRAINS = 3
"""Drains to wait for the culprit while all who failed only lost a partner."""


class Blame:
    """One attempt's search for its culprit. `outcomes` fills as workers end."""

    def __init__(
        self,
        directory: RunDirectory,
        outcomes: Mapping[int, Outcome],
        *,
        contact: Contact,
        watch: SliceWatch,
        acting: Acting,
        patience: Patience,
    ) -> None:
        self.directory = directory
        self.outcomes = outcomes
        self.contact = contact
        self.watch = watch
        self.acting = acting
        self.patience = patience

    async def on_failure(self) -> None:
        """After a first failure: wait for others that failed before it, name the first, end the rest by policy."""
        for _ in range(_DRAINS):
            if status_of(self.directory).stop_requested:
                return
            await asyncio.sleep(self.patience.drain)
            if not only_lost_partners(self.outcomes):
                break
        await self.learn_of_a_stop()
        if status_of(self.directory).stop_requested:
            return
        if not await self.acting.is_ours(status_of(self.directory).attempt):
            await record(self.directory, "note", text="a newer keeper on another machine acts on this failure")
            if not await self._is_left_undone():
                return
            await self.acting.take_back()
            while_ = format_duration(self.patience.newer_acts)
            await record(self.directory, "note", text=f"that keeper did nothing for {while_}: this one acts")
        cause = await self.name_first()
        everybody = len(self.outcomes) == len(self.directory.run.workers)
        if everybody or self.directory.run.on_failure != "stop":
            return
        grace = self.directory.run.grace
        await record(self.directory, STOP_REQUESTED, by=BY_POLICY, grace=grace, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)

    async def _is_left_undone(self) -> bool:
        """Whether a newer keeper let a failure be that the run's policy tells to act on."""
        await asyncio.sleep(self.patience.newer_acts)
        stops = self.directory.run.on_failure == "stop" and not status_of(self.directory).stop_requested
        return stops and len(self.outcomes) < len(self.directory.run.workers)

    async def learn_of_a_stop(self) -> None:
        """A stop from another machine is marked on the workers: with it, what ended there did not fail.

        Nor did it succeed, where it obeyed so well that it ended with 0.
        """
        if status_of(self.directory).stop_requested:
            return
        stopped = any(one.stopped for one in self.outcomes.values())
        if not stopped and any(failed(one) for one in self.outcomes.values()):
            heard = await self.acting.answers()
            stopped = any(answer.fields.get("stopped") == "1" for answer in heard.values())
        if stopped:
            await note_stop_elsewhere(self.directory)

    async def name_first(self) -> str | None:
        """Put the first failure on record, once; its cause, None where nobody failed."""
        status = status_of(self.directory)
        if status.first_failure is not None:
            return status.cause
        first = first_failure(self.outcomes)
        if first is None:
            return None
        plight = await self._plight(first)
        outcome = self.outcomes[first]
        exit_code = outcome.exit_code
        if plight is not None and plight.is_final and outcome.unreachable is not None:
            outcome = replace(outcome, unreachable="is gone")
        cause = explain(first, outcome, last_lines(self.directory.log_path(first)))
        left = [index for index, one in self.outcomes.items() if failed(one) and one.unreachable is None]
        if (out := self.contact.out_of_reach) and left and only_lost_partners(self.outcomes):
            cause = f"worker {out[0]} cannot be reached; {names_of(left)} lost it as a partner"
            first, exit_code = out[0], None
        if plight is not None and plight.explains and plight.text not in cause:
            cause = f"{plight.text}; {cause}"
        await record(self.directory, "failure", worker=first, exit_code=exit_code, cause=cause)
        return cause

    async def _plight(self, first: int) -> Plight | None:
        """What the API says, where the failure could come from the machine rather than from the job."""
        if self.contact.out_of_reach or is_unexplained(self.outcomes[first]):
            return await self.watch.look()
        return None

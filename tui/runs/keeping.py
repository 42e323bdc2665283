"""What a keeper does in one attempt, from the launch to the last byte: the run's life, seen from this machine."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tui.errors import LaunchError, TpuTuiError
from tui.pod.run import RunState
from tui.runs.acting import Acting
from tui.runs.directory import EVENTS_FILE, RunDirectory
from tui.runs.follow import Follower
from tui.runs.launch import Gang, LaunchSpec
from tui.runs.mirror import record, set_logs_aside, tell_missed_arrivals
from tui.runs.policies import (
    Patience,
    explain,
    failed,
    final_state,
    first_failure,
    in_time,
    last_lines,
    names_of,
    only_lost_partners,
)
from tui.runs.remote import Outcome
from tui.runs.status import BY_POLICY, RunStatus, WorkerStatus, status_of
from tui.runs.stop import ANSWER_TIME, record_answer, stop_worker
from tui.runs.survey import Found, survey
from tui.ssh.fleet import Fleet
from tui.ssh.retry import backoff

if TYPE_CHECKING:
    from collections.abc import Coroutine

LOOK = 0.5
"""Seconds between two looks for somebody's wish to stop."""
ABORT_GRACE = 5.0
"""Seconds that jobs of a launch that failed after the barrier get to end: they have hardly begun."""
GIVE_UP = 600.0
"""Seconds for which workers that cannot be reached are tried, when a launch has to be undone or a run is over."""
_DRAINS = 3
"""Drains to wait for the culprit while all who failed only lost a partner."""


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: what its last `state` event is to say, unless it is made again."""

    state: RunState
    cause: str | None
    worker: int | None = None
    remedy: str | None = None


async def wish_to_stop(directory: RunDirectory) -> RunStatus:
    """Wait until somebody wants the present attempt stopped; the status that says so."""
    seen = -1
    while True:
        size = (directory.path / EVENTS_FILE).stat().st_size
        if size != seen:
            seen = size
            status = status_of(directory)
            if status.stop_requested is not None:
                return status
        await asyncio.sleep(LOOK)


class Keeping:
    """One keeper's work on one attempt of a run.

    `launching` says that the attempt has to be launched; without `spec` the workers take what they were sent before.
    """

    def __init__(
        self,
        directory: RunDirectory,
        fleet: Fleet,
        patience: Patience,
        *,
        spec: LaunchSpec | None = None,
        attempt: int = 0,
        launching: bool = False,
        acting: Acting | None = None,
    ) -> None:
        self.directory = directory
        self.fleet = fleet
        self.patience = patience
        self.spec = spec
        self.attempt = attempt
        self.launching = launching
        self.acting = acting or Acting(directory.run, fleet)
        self.outcomes: dict[int, Outcome] = {}
        self.followers: dict[int, Follower] = {}
        self._was_over = False
        self._ended = asyncio.Event()
        self._acting: set[asyncio.Task[None]] = set()

    async def run(self) -> Ended | None:
        """The whole attempt; None when its end was on record before. Cancelled: the run is left as it is."""
        watching = asyncio.ensure_future(self._watch_for_stop())
        try:
            ended = await (self._launch() if self.launching else self._take_over())
            return ended if ended is not None else await self._follow()
        finally:
            watching.cancel()
            for task in self._acting:
                task.cancel()
            await asyncio.gather(watching, *self._acting, return_exceptions=True)

    # -- launch ----------------------------------------------------------------------------------------------------

    async def _launch(self) -> Ended | None:
        """Launch the gang; how that ended where it does not run."""
        spec = self.spec or LaunchSpec(self.directory.run, {}, self.fleet.access)
        gang = Gang(self.directory, spec, self.fleet, attempt=self.attempt, again=self.spec is None)
        launching = asyncio.ensure_future(gang.run())
        wish = asyncio.ensure_future(wish_to_stop(self.directory))
        try:
            await asyncio.wait({launching, wish}, return_when=asyncio.FIRST_COMPLETED)
            if not launching.done():
                launching.cancel()
            try:
                await launching
            except TpuTuiError as error:
                return await self._undo(gang, error)
            except asyncio.CancelledError:
                if not wish.done():
                    raise
                return await self._undo(gang, None)
        finally:
            launching.cancel()
            wish.cancel()
        await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return None

    async def _undo(self, gang: Gang, error: TpuTuiError | None) -> Ended:
        """End what a launch that came to nothing may have started; the culprit is named."""
        cause = None if error is None else _in_words(error)
        if gang.passed_barrier:
            await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)
            left = await self._stop_all(ABORT_GRACE, GIVE_UP)
            if left:
                names = ", ".join(str(index) for index in left)
                cause = f"{cause or 'stopped'}; not confirmed stopped: worker {names}"
        state = RunState.STOPPED if error is None else RunState.FAILED
        worker = error.worker if error is not None and isinstance(error.worker, int) else None
        if worker is not None:
            await record(self.directory, "failure", worker=worker, exit_code=None, cause=cause)
        return Ended(state, cause, worker, error.remedy if error is not None else None)

    async def _stop_all(self, grace: float, patience: float) -> list[int]:
        """Stop every worker, trying those again that do not answer; the ones that never did."""
        left = [worker.index for worker in self.directory.run.workers]
        deadline = asyncio.get_running_loop().time() + patience
        waits = backoff()
        while True:
            answers = await asyncio.gather(
                *(stop_worker(self.directory.run, self.fleet, index, grace=grace) for index in left)
            )
            for answer in answers:
                await record_answer(self.directory, answer)
            left = [answer.worker for answer in answers if not answer.confirmed]
            if not left or asyncio.get_running_loop().time() > deadline:
                return left
            await asyncio.sleep(next(waits))

    # -- taking over -----------------------------------------------------------------------------------------------

    async def _take_over(self) -> Ended | None:
        """Look what became of a run whose keeper is gone; how it ended where there is nothing to follow."""
        status = status_of(self.directory)
        if status.state is RunState.PREPARING and self.attempt:
            set_logs_aside(self.directory, self.attempt)
        tell_missed_arrivals(self.directory)
        if status.state is not RunState.PREPARING:
            return None
        asking = survey(self.directory.run, self.fleet, self.attempt)
        try:
            found = await asyncio.wait_for(asking, self.patience.lost_after)
        except asyncio.TimeoutError:
            return Ended(RunState.LOST, f"what became of its launch could not be asked for {self._lost_after}")
        begun = [index for index, what in found.items() if what is not Found.NOTHING]
        if not begun and self.attempt and await self.acting.is_ours():
            return await self._launch()
        if not begun:
            error = LaunchError("the launch was cut off before anything started", remedy="launch it again")
            return Ended(RunState.FAILED, _in_words(error))
        for index in begun:
            await record(self.directory, "phase", worker=index, phase="confirm", status="done", detail="found")
        missing = [index for index, what in found.items() if what in (Found.NOTHING, Found.ABORTED)]
        if missing:
            await self._end_partial(missing)
        else:
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return None

    async def _end_partial(self, missing: list[int]) -> None:
        """Stop a run whose launch was cut off while it was confirmed: it runs on some workers only."""
        cause = f"the launch was cut off while it was confirmed: it does not run on {names_of(missing)}"
        await record(self.directory, "failure", worker=missing[0], exit_code=None, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)
        await record(self.directory, "stop_requested", by=BY_POLICY, grace=ABORT_GRACE, cause=cause)
        await self._stop_all(ABORT_GRACE, GIVE_UP)

    @property
    def _lost_after(self) -> str:
        return in_time(self.patience.lost_after)

    # -- following -------------------------------------------------------------------------------------------------

    async def _follow(self) -> Ended | None:
        """Mirror every worker to its end, acting when one fails; how the attempt ended, None when that is known."""
        before = status_of(self.directory)
        self._was_over = before.state.is_over
        settled = before.state.is_over and before.state is not RunState.LOST
        following = [asyncio.ensure_future(self._follow_one(worker)) for worker in before.workers]
        try:
            await asyncio.wait_for(asyncio.gather(*following), GIVE_UP if settled else None)
        except asyncio.TimeoutError:
            await record(self.directory, "note", text="some workers' last bytes could not be fetched: out of reach")
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        return await self._conclude()

    def _allowed(self, index: int) -> float:
        """Seconds that a worker may stay out of reach just now, before it is given up."""
        if self._was_over:
            return min(GIVE_UP, self.patience.lost_after)
        mine = self.followers[index]
        others = [other for other in self.followers.values() if other is not mine]
        reached = any(
            other.heard is not None and mine.out_since is not None and other.heard > mine.out_since
            for other in others
        )
        if not reached:
            return self.patience.lost_after
        going = any(other.out_since is None and other.worker not in self.outcomes for other in others)
        return math.inf if going else self.patience.gone_after

    async def _reached(self, index: int) -> None:
        """A worker answers: it learns who acts. A run that was given up as lost goes on, or its end can be told."""
        with suppress(TpuTuiError):
            await self.acting.leave_with(index)
        if self._was_over and status_of(self.directory).state is RunState.LOST:
            self._was_over = False
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None, revived=True)

    async def _follow_one(self, before: WorkerStatus) -> None:
        index = before.worker
        outcome = self._from_record(before)
        if outcome is None:
            outcome = await self._followed(index)
        self.outcomes[index] = outcome
        if failed(outcome) and not self._ended.is_set():
            self._ended.set()
            self._act(self._on_failure())

    async def _followed(self, index: int) -> Outcome:
        """Follow one worker to its end, which becomes an event; a worker that was given up has not ended."""
        follower = Follower(
            self.directory,
            self.fleet,
            index,
            attempt=self.attempt,
            patience=lambda: self._allowed(index),
            reached=lambda: self._reached(index),
        )
        self.followers[index] = follower
        outcome = await follower.run()
        if outcome.unreachable is not None:
            await record(self.directory, "link", worker=index, status="lost", detail=outcome.unreachable)
            return outcome
        await record(
            self.directory,
            "exit",
            worker=index,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            size=outcome.size,
            cause=outcome.cause,
            ended=outcome.time,
            recorded=outcome.recorded,
        )
        return outcome

    def _from_record(self, before: WorkerStatus) -> Outcome | None:
        """The outcome that an earlier keeper wrote down, where the mirror is as long as it says."""
        with suppress(OSError):
            if before.size is not None and self.directory.log_path(before.worker).stat().st_size == before.size:
                return Outcome(
                    before.exit_code, before.signal, before.size, time=before.ended_at, recorded=before.recorded
                )
        return None

    def _act(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._acting.add(task)
        task.add_done_callback(_raise_in_log)

    async def _on_failure(self) -> None:
        """After a first failure: wait for others that failed before it, name the first, end the rest by policy."""
        for _ in range(_DRAINS):
            if status_of(self.directory).stop_requested:
                return
            await asyncio.sleep(self.patience.drain)
            if not only_lost_partners(self.outcomes):
                break
        await self._learn_of_a_stop()
        if status_of(self.directory).stop_requested:
            return
        if not await self.acting.is_ours():
            await record(self.directory, "note", text="a newer keeper on another machine acts on this failure")
            return
        cause = await self._name_first_failure()
        everybody = len(self.outcomes) == len(self.directory.run.workers)
        if everybody or self.directory.run.on_failure != "stop":
            return
        grace = self.directory.run.grace
        await record(self.directory, "stop_requested", by=BY_POLICY, grace=grace, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)

    def _out_of_reach(self) -> list[Follower]:
        """The workers that nobody can reach now, the one that was lost first in front."""
        out = [item for item in self.followers.values() if item.out_since is not None]
        return sorted(out, key=lambda item: item.out_since or 0.0)

    async def _name_first_failure(self) -> str | None:
        status = status_of(self.directory)
        if status.first_failure is not None:
            return status.cause
        first = first_failure(self.outcomes)
        if first is None:
            return None
        outcome = self.outcomes[first]
        cause = explain(first, outcome, last_lines(self.directory.log_path(first)))
        exit_code = outcome.exit_code
        if (out := self._out_of_reach()) and only_lost_partners(self.outcomes):
            others = names_of(index for index, one in self.outcomes.items() if failed(one))
            cause = f"worker {out[0].worker} cannot be reached; {others} lost it as a partner"
            first, exit_code = out[0].worker, None
        await record(self.directory, "failure", worker=first, exit_code=exit_code, cause=cause)
        return cause

    async def _learn_of_a_stop(self) -> None:
        """A stop from another machine is marked on the workers: with it, what ended there did not fail."""
        if status_of(self.directory).stop_requested or not any(failed(one) for one in self.outcomes.values()):
            return
        heard = await self.acting.answers()
        if any(answer.fields.get("stopped") == "1" for answer in heard.values()):
            by, grace = "user on another machine", self.directory.run.grace
            await record(self.directory, "stop_requested", by=by, grace=grace)

    async def _conclude(self) -> Ended | None:
        await self._learn_of_a_stop()
        status = status_of(self.directory)
        if status.state.is_over:
            return None
        by_person = status.stop_requested not in (None, BY_POLICY)
        lost = {index: one for index, one in self.outcomes.items() if one.unreachable is not None}
        if lost:
            if len(lost) < len(self.outcomes):
                await self._name_first_failure()
                status = status_of(self.directory)
            return Ended(RunState.LOST, _lost_cause(status, lost))
        cause = None if by_person else await self._name_first_failure()
        first = first_failure(self.outcomes)
        named = status_of(self.directory).first_failure
        state = final_state(
            self.outcomes, stopped_by_person=by_person, first=first if named not in self.outcomes else named
        )
        return Ended(state, cause)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def _watch_for_stop(self) -> None:
        """See to it that a stop that was asked for, by a person or by policy, gets done on every worker.

        A person's stop asks the workers itself; what it could not reach is finished here when it comes back.
        """
        status = await wish_to_stop(self.directory)
        by_policy = status.stop_requested == BY_POLICY
        if not by_policy:
            await asyncio.sleep(status.stop_grace + ANSWER_TIME / 3)
        indices = [worker.index for worker in self.directory.run.workers]
        await asyncio.gather(*(self._insist(index, status.stop_grace, not by_policy) for index in indices))

    async def _insist(self, index: int, grace: float, for_good: bool) -> None:
        waits = backoff()
        while index not in self.outcomes:
            answer = await stop_worker(self.directory.run, self.fleet, index, grace=grace, for_good=for_good)
            if answer.confirmed:
                await record_answer(self.directory, answer)
                return
            await asyncio.sleep(next(waits))


def _lost_cause(status: RunStatus, lost: dict[int, Outcome]) -> str:
    """Why a run counts as lost, after what was known before."""
    first = next(iter(lost.values()))
    known = f"{status.cause}; " if status.cause else ""
    asked = "; a stop is not confirmed there" if status.stop_requested else ""
    return (
        f"{known}{names_of(lost)} {first.unreachable}{asked}. Deleted, or the network here is gone: "
        "`tpu-tui attach` looks again"
    )


def _in_words(error: TpuTuiError) -> str:
    return error.sentence + (f". {error.remedy[0].upper()}{error.remedy[1:]}" if error.remedy else "")


def _raise_in_log(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler({"message": "a policy failed", "exception": task.exception()})

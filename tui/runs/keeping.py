"""What a keeper does from the launch to the last byte: the run's life, seen from this machine."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tui.errors import LaunchError, TpuTuiError
from tui.pod.run import RunState
from tui.runs.claim import Claim
from tui.runs.directory import HEARTBEAT, RunDirectory
from tui.runs.follow import Follower
from tui.runs.launch import Gang, LaunchSpec
from tui.runs.mirror import record, tell_missed_arrivals
from tui.runs.policies import DRAIN, explain, failed, final_state, first_failure, last_lines
from tui.runs.remote import Outcome
from tui.runs.status import BY_POLICY, WorkerStatus, status_of
from tui.runs.stop import ANSWER_TIME, record_answer, stop_worker
from tui.runs.survey import Found, survey
from tui.ssh.access import Access
from tui.ssh.fleet import Fleet
from tui.ssh.retry import backoff

if TYPE_CHECKING:
    from collections.abc import Coroutine

LOOK = 0.5
"""Seconds between two looks for somebody's wish to stop."""
ABORT_GRACE = 5.0
"""Seconds that jobs of a launch that failed after the barrier get to end: they have hardly begun."""
GIVE_UP = 600.0
"""Seconds for which workers that cannot be reached are tried, when a launch has to be undone."""


def keep_in_loop(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    """Keep the run until it is over and its mirror complete, or until SIGTERM: that leaves the run alone."""
    asyncio.run(_until_told(directory, claim, document))


async def _until_told(directory: RunDirectory, claim: Claim, document: Mapping[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    keeping = asyncio.ensure_future(_keep(directory, document))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeping.cancel)
    beating = asyncio.ensure_future(_beat(claim))
    try:
        with suppress(asyncio.CancelledError):
            await keeping
    finally:
        beating.cancel()


async def _beat(claim: Claim) -> None:
    while True:
        claim.beat()
        await asyncio.sleep(HEARTBEAT)


async def _keep(directory: RunDirectory, document: Mapping[str, Any]) -> None:
    spec = LaunchSpec.from_json(document["spec"]) if "spec" in document else None
    access = spec.access if spec else _access(directory, document)
    async with Fleet(directory.run.workers, access) as fleet:
        await Keeping(directory, fleet, spec).run()


def _access(directory: RunDirectory, document: Mapping[str, Any]) -> Access:
    if "access" in document:
        return Access.from_json(document["access"])
    from tui.settings import load
    from tui.ssh.access import access_from

    return access_from(load({"profile": directory.run.profile} if directory.run.profile else {}))


class Keeping:
    """One keeper's work on one run."""

    def __init__(self, directory: RunDirectory, fleet: Fleet, spec: LaunchSpec | None) -> None:
        self.directory = directory
        self.fleet = fleet
        self.spec = spec
        self.outcomes: dict[int, Outcome] = {}
        self._ended = asyncio.Event()
        self._acting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """The whole life; returns when nothing is left to do. Cancelled: the run is left as it is."""
        watching = asyncio.ensure_future(self._watch_for_stop())
        try:
            going = await self._launch() if self.spec else await self._take_over()
            if going:
                await self._follow()
        finally:
            watching.cancel()
            for task in self._acting:
                task.cancel()
            await asyncio.gather(watching, *self._acting, return_exceptions=True)

    # -- launch ----------------------------------------------------------------------------------------------------

    async def _launch(self) -> bool:
        """Launch the gang; whether it runs."""
        assert self.spec is not None
        await record(self.directory, "state", state=str(RunState.PREPARING), cause=None)
        gang = Gang(self.directory, self.spec, self.fleet)
        launching = asyncio.ensure_future(gang.run())
        wish = asyncio.ensure_future(self._wish_to_stop())
        try:
            await asyncio.wait({launching, wish}, return_when=asyncio.FIRST_COMPLETED)
            if not launching.done():
                launching.cancel()
            try:
                await launching
            except TpuTuiError as error:
                await self._undo(gang, error)
                return False
            except asyncio.CancelledError:
                if not wish.done():
                    raise
                await self._undo(gang, None)
                return False
        finally:
            launching.cancel()
            wish.cancel()
        await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return True

    async def _wish_to_stop(self) -> None:
        offset = 0
        while True:
            events, offset = self.directory.events(offset)
            if any(event.kind == "stop_requested" for event in events):
                return
            await asyncio.sleep(LOOK)

    async def _undo(self, gang: Gang, error: TpuTuiError | None) -> None:
        """End what a launch that came to nothing may have started; the culprit is named in the last state."""
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
        remedy = error.remedy if error is not None else None
        await record(self.directory, "state", worker=worker, state=str(state), cause=cause, remedy=remedy)

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

    async def _take_over(self) -> bool:
        """Look what became of a run whose keeper is gone; whether there is something to follow."""
        tell_missed_arrivals(self.directory)
        status = status_of(self.directory)
        if status.state is not RunState.PREPARING:
            return True
        found = await survey(self.directory.run, self.fleet)
        begun = [index for index, what in found.items() if what is not Found.NOTHING]
        if not begun:
            error = LaunchError("the launch was cut off before anything started", remedy="launch it again")
            await record(self.directory, "state", state=str(RunState.FAILED), cause=_in_words(error))
            return False
        missing = [index for index, what in found.items() if what in (Found.NOTHING, Found.ABORTED)]
        for index in begun:
            await record(self.directory, "phase", worker=index, phase="confirm", status="done", detail="found")
        if missing:
            names = ", ".join(str(index) for index in missing)
            cause = f"the launch was cut off while it was confirmed: it does not run on worker {names}"
            await record(self.directory, "failure", worker=missing[0], exit_code=None, cause=cause)
            await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)
            await record(self.directory, "stop_requested", by=BY_POLICY, grace=ABORT_GRACE, cause=cause)
            await self._stop_all(ABORT_GRACE, GIVE_UP)
        else:
            await record(self.directory, "state", state=str(RunState.RUNNING), cause=None)
        return True

    # -- following -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Mirror every worker to its end, acting when one fails; then say how the run ended."""
        before = status_of(self.directory)
        followers = [asyncio.ensure_future(self._follow_one(worker)) for worker in before.workers]
        try:
            await asyncio.wait_for(asyncio.gather(*followers), GIVE_UP if before.state.is_over else None)
        except asyncio.TimeoutError:
            await record(self.directory, "note", text="some workers' last bytes could not be fetched: out of reach")
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)
        await self._conclude()

    async def _follow_one(self, before: WorkerStatus) -> None:
        index = before.worker
        outcome = self._from_record(before)
        if outcome is None:
            outcome = await Follower(self.directory, self.fleet, index).run()
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
        self.outcomes[index] = outcome
        if failed(outcome) and not self._ended.is_set():
            self._ended.set()
            self._act(self._on_failure())

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
        if status_of(self.directory).stop_requested:
            return
        await asyncio.sleep(DRAIN)
        if status_of(self.directory).stop_requested:
            return
        cause = await self._name_first_failure()
        everybody = len(self.outcomes) == len(self.directory.run.workers)
        if everybody or self.directory.run.on_failure != "stop":
            return
        grace = self.directory.run.grace
        await record(self.directory, "stop_requested", by=BY_POLICY, grace=grace, cause=cause)
        await record(self.directory, "state", state=str(RunState.STOPPING), cause=cause)

    async def _name_first_failure(self) -> str | None:
        status = status_of(self.directory)
        if status.first_failure is not None:
            return status.cause
        first = first_failure(self.outcomes)
        if first is None:
            return None
        outcome = self.outcomes[first]
        cause = explain(first, outcome, last_lines(self.directory.log_path(first)))
        await record(self.directory, "failure", worker=first, exit_code=outcome.exit_code, cause=cause)
        return cause

    async def _conclude(self) -> None:
        status = status_of(self.directory)
        if status.state.is_over:
            return
        by_person = status.stop_requested not in (None, BY_POLICY)
        cause = None if by_person else await self._name_first_failure()
        first = first_failure(self.outcomes)
        named = status_of(self.directory).first_failure
        state = final_state(
            self.outcomes, stopped_by_person=by_person, first=first if named not in self.outcomes else named
        )
        await record(self.directory, "state", state=str(state), cause=cause)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def _watch_for_stop(self) -> None:
        """See to it that a stop that was asked for, by a person or by policy, gets done on every worker.

        A person's stop asks the workers itself; what it could not reach is finished here when it comes back.
        """
        offset = 0
        while True:
            events, offset = self.directory.events(offset)
            for event in events:
                if event.kind == "stop_requested":
                    grace = float(event.get("grace") or 0)
                    await self._finish_stop(grace, wait=event.get("by") != BY_POLICY)
                    return
            await asyncio.sleep(LOOK)

    async def _finish_stop(self, grace: float, *, wait: bool) -> None:
        if wait:
            await asyncio.sleep(grace + ANSWER_TIME / 3)
        await asyncio.gather(*(self._insist(worker.index, grace) for worker in self.directory.run.workers))

    async def _insist(self, index: int, grace: float) -> None:
        waits = backoff()
        while index not in self.outcomes:
            answer = await stop_worker(self.directory.run, self.fleet, index, grace=grace)
            if answer.confirmed:
                await record_answer(self.directory, answer)
                return
            await asyncio.sleep(next(waits))


def _in_words(error: TpuTuiError) -> str:
    return error.sentence + (f". {error.remedy[0].upper()}{error.remedy[1:]}" if error.remedy else "")


def _raise_in_log(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler({"message": "a policy failed", "exception": task.exception()})

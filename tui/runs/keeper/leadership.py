"""Determine the leader among the keepers of a run on several machines: the newest one, which applies the policies.

Each keeper leaves its number with every worker that it reaches. A keeper that finds another number there has been
succeeded by a newer keeper and only mirrors from then on, unless the newer one ignores a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tui.errors import TpuTuiError
from tui.pod.run import Run
from tui.runs.follow.sync_from_workers import query_workers
from tui.runs.worker.calls import build_call
from tui.runs.worker.queries import QUERY_TIMEOUT_S, parse_attempt
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

ATTEMPT_POLL_INTERVAL_S = 5.0
"""Seconds between two queries whether the leader has launched the next attempt."""


@dataclass(eq=False)
class Leadership:
    """One keeper's claim to be the leader, as the workers know it."""

    run: Run
    fleet: Fleet
    number: int = field(default_factory=time.time_ns)
    _announced: set[int] = field(default_factory=set)

    def mark_announced(self, indices: Iterable[int]) -> None:
        """Note that these workers have the number already, because the launch sent it."""
        self._announced.update(indices)

    async def announce_to(self, index: int) -> None:
        """Leave the number with a worker, unless it has it. Raises WorkerError."""
        if index in self._announced:
            return
        self._announced.add(index)
        call = build_call("keep", self.run.id, index, self.number, run_root=self.run.run_root)
        try:
            await self.fleet.run(index, call.command, input=call.input, timeout=QUERY_TIMEOUT_S)
        except BaseException:
            self._announced.discard(index)
            raise

    async def reclaim(self) -> None:
        """Become the newest keeper again, on every reachable worker."""
        self.number = time.time_ns()
        self._announced.clear()
        announcements = (self.announce_to(worker.index) for worker in self.run.workers)
        for result in await asyncio.gather(*announcements, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, TpuTuiError):
                raise result

    async def query_workers(self) -> dict[int, Answer]:
        """Return the answers of the reachable workers that know the run."""
        answers = await query_workers(self.run, self.fleet)
        return {index: answer for index, answer in answers.items() if answer is not None}

    async def is_leader(self, attempt: int) -> bool:
        """Return whether this keeper decides what happens after an attempt.

        It does unless a worker that had its number has another one by now, or any worker is at a later attempt.
        """
        answers = await self.query_workers()
        return not any(
            parse_attempt(answer, self.run) > attempt
            or (index in self._announced and answer.number("keeper") not in (None, self.number))
            for index, answer in answers.items()
        )

    async def wait_for_other(self, attempt: int, timeout_s: float) -> bool | None:
        """Wait until the leader, on another machine, begins the attempt; return True if it did.

        Return False if the run was stopped, None if nothing happened for `timeout_s` seconds.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            answers = (await self.query_workers()).values()
            if any(parse_attempt(answer, self.run) >= attempt for answer in answers):
                return True
            if any(answer.has("stopped") for answer in answers):
                return False
            await asyncio.sleep(ATTEMPT_POLL_INTERVAL_S)
        return None

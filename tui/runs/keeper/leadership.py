"""Which keeper acts: a run may be mirrored by keepers on several machines, and the newest acts on its policies.

Each keeper leaves its number with every worker as it first reaches it; whoever finds another number there than its
own has been followed by a newer keeper, and only mirrors from then on, unless that one lets a failure be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError
from tui.pod.run import Run
from tui.runs.worker.calls import build_call
from tui.runs.worker.queries import QUERY_TIMEOUT_S, parse_attempt, query_status
from tui.ssh.exec.script_protocol import Answer

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

ATTEMPT_POLL_INTERVAL_S = 5.0
"""Seconds between two looks whether the acting keeper has launched the next attempt."""


class Leadership:
    """One keeper's claim to act, as the workers know it."""

    def __init__(self, run: Run, fleet: Fleet) -> None:
        self.run = run
        self.fleet = fleet
        self.number = time.time_ns()
        self._announced: set[int] = set()

    def mark_announced(self, indices: Iterable[int]) -> None:
        """Note that these workers have the number already: a launch brings it along."""
        self._announced.update(indices)

    async def announce_to(self, index: int) -> None:
        """Leave the number with a worker, once in this keeper's life. Raises WorkerError."""
        if index in self._announced:
            return
        self._announced.add(index)
        made = build_call("keep", self.run.id, index, self.number, run_root=self.run.run_root)
        try:
            await self.fleet.run(index, made.command, input=made.input, timeout=QUERY_TIMEOUT_S)
        except BaseException:
            self._announced.discard(index)
            raise

    async def reclaim(self) -> None:
        """Be the newest keeper again, on every worker in reach."""
        self.number = time.time_ns()
        self._announced.clear()
        leaving = (self.announce_to(worker.index) for worker in self.run.workers)
        for left in await asyncio.gather(*leaving, return_exceptions=True):
            if isinstance(left, BaseException) and not isinstance(left, TpuTuiError):
                raise left

    async def query_workers(self) -> dict[int, Answer]:
        """What the workers that can be reached, and know the run, say of it."""

        async def one(index: int) -> Answer | None:
            try:
                return await query_status(self.run, self.fleet, index)
            except TpuTuiError:
                return None

        indices = [worker.index for worker in self.run.workers]
        heard = await asyncio.gather(*(one(index) for index in indices))
        return {index: answer for index, answer in zip(indices, heard, strict=True) if answer is not None}

    async def is_leader(self, attempt: int) -> bool:
        """Whether what is to follow that attempt is ours to do.

        No worker that has our number has a newer keeper's by now, and none has gone on to a later attempt.
        """
        heard = await self.query_workers()
        return not any(
            parse_attempt(answer, self.run) > attempt
            or (index in self._announced and answer.number("keeper") not in (None, self.number))
            for index, answer in heard.items()
        )

    async def wait_for_other(self, attempt: int, timeouts: float) -> bool | None:
        """Wait for the attempt that the acting keeper, on another machine, is to begin; whether it did.

        False where somebody stopped the run; None where nothing was done for so many seconds.
        """
        deadline = asyncio.get_running_loop().time() + timeouts
        while asyncio.get_running_loop().time() < deadline:
            heard = (await self.query_workers()).values()
            if any(parse_attempt(answer, self.run) >= attempt for answer in heard):
                return True
            if any(answer.fields.get("stopped") == "1" for answer in heard):
                return False
            await asyncio.sleep(ATTEMPT_POLL_INTERVAL_S)
        return None

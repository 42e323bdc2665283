"""Follow the startup scripts of new slices and groups, after the steps of their creation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tui.checks.slice_state import state_remedy
from tui.errors import CloudError, OutOfReachError
from tui.operator.connections import Connections
from tui.pod.creation.machine_request import MachineRequest
from tui.pod.creation.slice_request import CreationStep, WorkerStartup
from tui.pod.creation.startup_progress import progress_line, startup_error, waiting_line
from tui.pod.slice import Slice
from tui.ssh.fleet import Fleet
from tui.ssh.startup_scripts import follow_startup_scripts

FIRST_REPORT_S, LONGEST_REPORT_S = 15.0, 120.0
"""First and longest interval of reports while no script ends; the intervals double."""
STATE_INTERVAL_S = 10.0
"""Interval at which the state of a slice is read while its script runs: it may be preempted or deleted.

The state is also read as soon as a worker stops answering.
"""
HOST_KEYS_TIMEOUT_S, HOST_KEYS_INTERVAL_S = 30.0, 1.0


class StartupScripts:
    """Waits for the startup scripts of a creation; `find` returns a slice by `zone/name`."""

    def __init__(self, connections: Connections, find: Callable[[str], Awaitable[Slice]]) -> None:
        self._connections = connections
        self._find = find

    async def follow(
        self, steps: AsyncIterator[CreationStep], request: MachineRequest
    ) -> AsyncIterator[CreationStep]:
        """Yield the steps of a creation, and then those of the startup scripts. Raises the error of a failed one."""
        last = CreationStep("")
        async for last in steps:
            yield last
        slices = [await self._find(f"{request.zone}/{name}") for name in request.slice_names]
        fleets = {slice_.name: await self._fleet_with_host_keys(slice_) for slice_ in slices}
        clock = asyncio.get_running_loop().time
        ready_at = reported_at = checked_at = clock()
        report_interval_s = FIRST_REPORT_S
        states: tuple[WorkerStartup, ...] = ()
        async with aclosing(follow_startup_scripts(fleets, request.startup_timeout_s)) as following:
            async for now in following:
                text = ""
                if not states or progress_line(now) != progress_line(states):
                    text, reported_at = progress_line(now), clock()
                elif clock() - reported_at >= report_interval_s:
                    text, reported_at = waiting_line(now, clock() - ready_at), clock()
                    report_interval_s = min(2 * report_interval_s, LONGEST_REPORT_S)
                if text or now != states:
                    elapsed_s = last.elapsed_s + clock() - ready_at
                    yield CreationStep(text, last.operation, elapsed_s, startup=now)
                lost = any(old.is_reachable and not new.is_reachable for old, new in zip(states, now, strict=False))
                states = now
                if lost or clock() - checked_at >= STATE_INTERVAL_S:
                    checked_at = clock()
                    await self._require_slices(slices, states)
        if error := startup_error(request, states):
            raise error

    async def _fleet_with_host_keys(self, slice_: Slice) -> Fleet:
        """Return connections to a new slice, whose workers may publish their host keys a moment after it is READY.

        Connections made before are closed: they may trust the host keys of an earlier slice of the same name.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + HOST_KEYS_TIMEOUT_S
        while True:
            await self._connections.drop_fleet(slice_)
            fleet = await self._connections.fleet(slice_)
            if not await fleet.unknown_hosts() or clock() > end:
                return fleet
            await asyncio.sleep(HOST_KEYS_INTERVAL_S)

    async def _require_slices(self, slices: Sequence[Slice], states: Sequence[WorkerStartup]) -> None:
        """Raise the error of a slice that was lost while its startup script ran."""
        awaited = {state.slice_name for state in states if not state.has_ended}
        for slice_ in slices:
            if slice_.name in awaited:
                try:
                    now = await self._find(slice_.path)
                except CloudError:
                    continue  # The workers may still be reachable.
                if not now.is_ready:
                    why = "its startup script had not ended"
                    raise OutOfReachError(f"{slice_.name} is {now.state}", why=why, remedy=state_remedy(now))

"""The parent's side of the guardian: start it, and request the end of workers and of the pod."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.localpod.cleanup.process_sweep import Mark

END_TIMEOUT_S = 30.0


class GuardianClient:
    """Starts the guardian of a pod's directory, profile and marked processes, and restarts it if it was killed."""

    def __init__(self, pod: str, directory: Path, profile: Path) -> None:
        self._pod = pod
        self._directory = directory
        self._profile = profile
        self._environment: dict[str, str] = {}
        self._guardian: asyncio.subprocess.Process | None = None
        self._numbers = itertools.count()
        self._requests: dict[int, tuple[bytes, asyncio.Future[list[int]]]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._marks: list[Mark] = []
        """The workers that the next sweep ends."""
        self._next_sweep: asyncio.Task[None] | None = None
        self._sweeping = asyncio.Lock()

    async def open(self, environment: dict[str, str]) -> None:
        """Start the guardian, which then cleans up in any case. `environment` must not carry the pod's mark."""
        self._environment = environment
        self._guardian = await self._start()
        self._keeping = asyncio.create_task(self._keep())

    async def _start(self) -> asyncio.subprocess.Process:
        arguments = ["--pod", self._pod, "--directory", str(self._directory), "--profile", str(self._profile)]
        guardian = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tui.localpod.cleanup.guardian",
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        assert guardian.stdout is not None
        if not await guardian.stdout.readline():
            raise TpuTuiError("the local pod's guardian did not start", why=f"exit code {await guardian.wait()}")
        return guardian

    async def _keep(self) -> None:
        """Read the guardian's answers; if it was killed, start another one and repeat the open requests."""
        while self._guardian is not None:
            assert self._guardian.stdout is not None
            while line := await self._guardian.stdout.readline():
                answer = json.loads(line)
                _, future = self._requests.pop(answer["request"])
                if not future.done():
                    future.set_result(answer["left"])
            await self._guardian.wait()
            self._guardian = await self._start()
            for request, _ in self._requests.values():
                self._write(request)

    def _write(self, request: bytes) -> None:
        if self._guardian is not None and self._guardian.stdin is not None:
            self._guardian.stdin.write(request)

    async def end(self, marks: Sequence[Mark]) -> None:
        """End every process with these workers' marks, their hosts included; return when none is left.

        A sweep costs the same for one worker and for many: requests that arrive during a sweep share the next one.
        Raises TpuTuiError if no guardian can be kept running.
        """
        if self._guardian is None or self._keeping is None or not marks:
            return
        self._marks += marks
        if self._next_sweep is None:
            self._next_sweep = asyncio.create_task(self._sweep(self._keeping))
        await asyncio.shield(self._next_sweep)

    async def _sweep(self, keeping: asyncio.Task[None]) -> None:
        async with self._sweeping:
            marks, self._marks, self._next_sweep = self._marks, [], None
            number = next(self._numbers)
            workers = [{"name": mark.worker, "serial": mark.serial} for mark in marks]
            request = (json.dumps({"request": number, "workers": workers}) + "\n").encode()
            future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            self._requests[number] = (request, future)
            self._write(request)
            waited_for: set[asyncio.Future[Any]] = {future, keeping}
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if not future.done() and self._guardian is not None:
                raise TpuTuiError("the local pod's guardian is gone", remedy="end this pod and start another")

    async def close(self) -> None:
        """Let the guardian end the whole pod, and wait for its exit. If it was killed, start another one first."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._guardian is None:
            return
        guardian, self._guardian = self._guardian, None
        if guardian.returncode is not None:
            guardian = await self._start()
        assert guardian.stdin is not None
        guardian.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(guardian.wait(), END_TIMEOUT_S)
        for _, future in self._requests.values():
            future.cancel()

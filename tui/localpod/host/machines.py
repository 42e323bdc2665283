"""The worker machines of a pod: host processes, started through the nursery, watched, ended by the guardian."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.errors import TpuTuiError
from tui.localpod.api.host_protocol import HostedWorker
from tui.localpod.cleanup.guardian_client import GuardianClient
from tui.localpod.cleanup.process_sweep import POD_SERIAL
from tui.localpod.host.host_spec import HostSpec, write_metadata_keys
from tui.localpod.host.loopback_addresses import Net, free_net

READY_SECONDS = 30.0
CORES_PER_CHIP = 2
"""Cores per chip of v2 and v3, which number the stand-ins for /dev/accel* where the type has no chip count."""


@dataclass
class _Machine:
    spec: HostSpec
    life: asyncio.StreamReader
    transport: asyncio.ReadTransport
    worker: HostedWorker | None = None
    pid: int = 0
    watch: asyncio.Task[None] | None = None
    alive: bool = True


@dataclass
class _Slice:
    name: str
    chips: int
    net: Net
    identity: str
    machines: list[_Machine] = field(default_factory=list)
    running: bool = False


class Machines:
    """Implements `tui.localpod.api.host_protocol.WorkerHosts` with one process a worker."""

    def __init__(self, pod: str, directory: Path, authorized_key: str, wards: GuardianClient) -> None:
        self._pod = pod
        self._directory = directory
        self._authorized_key = authorized_key
        self._wards = wards
        self.environment: dict[str, str] = {}
        """What every command on every worker sees besides its own worker's variables."""
        self._control: socket.socket | None = None
        self._nursery: asyncio.subprocess.Process | None = None
        self._slices: dict[str, _Slice] = {}
        self._serials = iter(range(POD_SERIAL - 1, 0, -1))

    async def open(self, environment: dict[str, str]) -> None:
        """Start the nursery; `environment` is what it and every host process carries."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, (self._directory / "hosts.log").open("ab") as log:
            self._nursery = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tui.localpod.host.fork_server",
                str(theirs.fileno()),
                self._pod,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._control = ours

    async def close(self) -> None:
        """Forget everything; the guardian ends the processes."""
        for one in self._slices.values():
            for machine in one.machines:
                machine.alive = False
                if machine.watch is not None:
                    machine.watch.cancel()
                machine.transport.close()
            one.net.close()
        self._slices.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._nursery is not None:
            await self._nursery.wait()

    @property
    def slices(self) -> tuple[str, ...]:
        """The slices that have machines, as they came."""
        return tuple(self._slices)

    def workers(self, slice_name: str) -> list[HostedWorker]:
        """The workers of a slice as they were started, in worker order."""
        one = self._slices.get(slice_name)
        return [machine.worker for machine in one.machines if machine.worker] if one else []

    def pids(self, slice_name: str) -> list[int]:
        """The host processes of a slice, in worker order; killing one is a preemption."""
        one = self._slices.get(slice_name)
        return [machine.pid for machine in one.machines] if one else []

    def homes(self, slice_name: str) -> list[Path]:
        """The home directories of a slice's workers, in worker order."""
        one = self._slices.get(slice_name)
        return [machine.spec.home for machine in one.machines] if one else []

    def alive(self, slice_name: str) -> list[bool]:
        """Whether each worker's machine still runs, in worker order; empty for a slice that is not there."""
        one = self._slices.get(slice_name)
        return [machine.alive for machine in one.machines] if one and one.running else []

    async def start(self, slice_name: str, workers: int, cores: int, chips: int | None = None) -> list[HostedWorker]:
        """Start the machines of a slice, all or none; a stopped slice comes back with its addresses, keys and homes.

        Raises TpuTuiError naming the worker that did not come up.
        """
        one = self._slices.get(slice_name)
        if one is not None and one.running:
            raise TpuTuiError(f"Slice {slice_name} could not be started", why="its workers run already")
        if one is None or len(one.machines) != workers:
            await self.remove(slice_name)
            one = _Slice(
                slice_name, chips or max(1, cores // CORES_PER_CHIP), free_net(workers), secrets.token_hex(4)
            )
        self._slices[slice_name] = one
        try:
            await self._start_all(one, workers)
        except BaseException:
            await self.remove(slice_name)
            raise
        one.running = True
        return self.workers(slice_name)

    async def _start_all(self, one: _Slice, workers: int) -> None:
        try:
            listeners = one.net.listeners()
        except OSError as error:
            raise TpuTuiError(
                f"The addresses of slice {one.name} could not be taken", why=error.strerror or str(error)
            ) from error
        one.machines = []
        try:
            for index, listener in zip(range(workers), listeners, strict=True):
                one.machines.append(await self._ask_for(one, index, listener))
        finally:
            for listener in listeners:
                listener.close()
        await asyncio.gather(*(self._await_ready(one, machine) for machine in one.machines))

    def _spec(self, one: _Slice, index: int) -> HostSpec:
        serial = next(self._serials, None)
        if serial is None:
            raise TpuTuiError("No more workers can be made in this local pod", remedy="Start a new one.")
        return HostSpec(
            pod=self._pod,
            slice_name=one.name,
            index=index,
            serial=serial,
            address=one.net.addresses[index][0],
            hostname=f"t1v-n-{one.identity}-w-{index}",
            directory=str(self._directory / "slices" / one.name / f"w-{index}"),
            chips=one.chips,
            authorized_key=self._authorized_key,
            environment=dict(self.environment),
        )

    async def _ask_for(self, one: _Slice, index: int, listener: socket.socket) -> _Machine:
        """Have the nursery fork one host; neither its listening socket nor its end of the pipe stays open here."""
        spec = self._spec(one, index)
        ours, theirs = os.pipe()
        try:
            assert self._control is not None, "the nursery is open"
            socket.send_fds(self._control, [spec.to_bytes()], [listener.fileno(), theirs])
        except OSError as error:
            os.close(ours)
            raise TpuTuiError(
                "The local worker could not be started", worker=index, why=f"the nursery is gone ({error})"
            ) from error
        finally:
            os.close(theirs)
        life = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(life), os.fdopen(ours, "rb", buffering=0)
        )
        return _Machine(spec, life, transport)

    async def _await_ready(self, one: _Slice, machine: _Machine) -> None:
        spec = machine.spec
        answer: dict[str, Any] = {"error": f"not ready within {READY_SECONDS:.0f} s"}
        with contextlib.suppress(asyncio.TimeoutError):
            line = await asyncio.wait_for(machine.life.readline(), READY_SECONDS)
            answer = json.loads(line) if line else {"error": f"its process ended; see {self._directory}/hosts.log"}
        if "error" in answer:
            raise TpuTuiError("The local worker did not come up", worker=spec.index, why=answer["error"])
        address, port = one.net.addresses[spec.index]
        machine.pid = answer["pid"]
        machine.worker = HostedWorker(spec.index, address, port, spec.hostname, answer["host_key"])
        machine.watch = asyncio.create_task(self._watch(machine))

    async def _watch(self, machine: _Machine) -> None:
        """End a worker's jobs when its host is gone: a preempted machine takes everything on it along."""
        while await machine.life.read(1):
            pass
        machine.alive = False
        await self._wards.end([machine.spec])

    async def stop(self, slice_name: str) -> None:
        """End every machine of the slice and whatever runs on it; homes, keys and addresses are kept for a start."""
        one = self._slices.get(slice_name)
        if one is None:
            return
        one.running = False
        for machine in one.machines:
            machine.alive = False
            if machine.watch is not None:
                machine.watch.cancel()
        await self._wards.end([machine.spec for machine in one.machines])
        for machine in one.machines:
            machine.transport.close()

    async def remove(self, slice_name: str) -> None:
        """End the slice for good, its homes included; a slice that is not there is no error."""
        await self.stop(slice_name)
        one = self._slices.pop(slice_name, None)
        if one is not None:
            one.net.close()
            shutil.rmtree(self._directory / "slices" / slice_name, ignore_errors=True)

    def authorize(self, slice_name: str, ssh_keys: str) -> None:
        """Authorize exactly the keys that the metadata `ssh-keys` names for the pod's one user."""
        one = self._slices.get(slice_name)
        for machine in one.machines if one else []:
            write_metadata_keys(machine.spec, ssh_keys)

    def preempt(self, slice_name: str, index: int) -> None:
        """Kill one worker's host process, as a preemption would end the machine."""
        machine = self._slices[slice_name].machines[index]
        if machine.alive:
            os.kill(machine.pid, signal.SIGKILL)

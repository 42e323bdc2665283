"""The worker machines of a pod: host processes that the fork server starts and the guardian ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.localpod.api.host_protocol import HostedWorker
from tui.localpod.cleanup.guardian_client import GuardianClient
from tui.localpod.cleanup.process_sweep import POD_SERIAL
from tui.localpod.host.host_spec import HostSpec, write_login_keys, write_startup_script
from tui.localpod.host.loopback_addresses import Net, free_net
from tui.procs.python_env import module_command

READY_TIMEOUT_S = 30.0
CORES_PER_CHIP = 2
"""The cores per chip of v2 and v3, from which the chips of a type without a chip count are computed."""


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
    hostname: str = ""
    machines: list[_Machine] = field(default_factory=list)
    running: bool = False


class Machines:
    """Implements `tui.localpod.api.host_protocol.WorkerHosts` with one process per worker."""

    def __init__(self, pod: str, directory: Path, authorized_key: str, guardian: GuardianClient) -> None:
        self._pod = pod
        self._directory = directory
        self._authorized_key = authorized_key
        self._guardian = guardian
        self.environment: dict[str, str] = {}
        """Variables of every command on every worker, in addition to those of its worker."""
        self.exited: Callable[[str], None] = lambda _: None
        self._control: socket.socket | None = None
        self._fork_server: asyncio.subprocess.Process | None = None
        self._slices: dict[str, _Slice] = {}
        self._serials = iter(range(POD_SERIAL - 1, 0, -1))

    async def open(self, environment: dict[str, str]) -> None:
        """Start the fork server; it and every host process get `environment`."""
        control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end, (self._directory / "hosts.log").open("ab") as log:
            self._fork_server = await asyncio.create_subprocess_exec(
                *module_command("tui.localpod.host.fork_server"),
                str(child_end.fileno()),
                self._pod,
                env=environment,
                pass_fds=[child_end.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._control = control

    async def close(self) -> None:
        """Release everything; the guardian ends the processes."""
        for slice_ in self._slices.values():
            for machine in slice_.machines:
                machine.alive = False
                if machine.watch is not None:
                    machine.watch.cancel()
                machine.transport.close()
            slice_.net.close()
        self._slices.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._fork_server is not None:
            await self._fork_server.wait()

    @property
    def slices(self) -> tuple[str, ...]:
        """The slices that have machines, in the order of their creation."""
        return tuple(self._slices)

    def _machines_of(self, slice_name: str) -> list[_Machine]:
        slice_ = self._slices.get(slice_name)
        return slice_.machines if slice_ else []

    def workers(self, slice_name: str) -> list[HostedWorker]:
        """Return the workers of a slice as they were started, in worker order."""
        return [machine.worker for machine in self._machines_of(slice_name) if machine.worker]

    def pids(self, slice_name: str) -> list[int]:
        """Return the host processes of a slice, in worker order; killing one is a preemption."""
        return [machine.pid for machine in self._machines_of(slice_name)]

    def homes(self, slice_name: str) -> list[Path]:
        """Return the home directories of a slice's workers, in worker order."""
        return [machine.spec.home for machine in self._machines_of(slice_name)]

    def alive(self, slice_name: str) -> list[bool]:
        """Return whether each worker's machine runs, in worker order; empty for a slice that does not exist."""
        slice_ = self._slices.get(slice_name)
        return [machine.alive for machine in slice_.machines] if slice_ and slice_.running else []

    async def start(
        self,
        slice_name: str,
        workers: int,
        cores: int,
        chips: int | None = None,
        startup_script: str = "",
        *,
        hostname: str = "",
    ) -> list[HostedWorker]:
        """Start the machines of a slice, all or none; a stopped slice keeps its addresses, keys and homes.

        Raises TpuTuiError, which names the worker that did not start.
        """
        slice_ = self._slices.get(slice_name)
        if slice_ is not None and slice_.running:
            raise TpuTuiError(f"Slice {slice_name} could not be started", why="its workers are running already")
        undo = self.stop
        if slice_ is None or len(slice_.net.addresses) != workers:
            undo = self.remove
            await self.remove(slice_name)
            number = max(1, cores // CORES_PER_CHIP) if chips is None else chips
            slice_ = _Slice(slice_name, number, free_net(workers), secrets.token_hex(4), hostname)
        self._slices[slice_name] = slice_
        try:
            await self._start_all(slice_, workers, startup_script)
        except BaseException:
            await undo(slice_name)
            raise
        slice_.running = True
        return self.workers(slice_name)

    async def _start_all(self, slice_: _Slice, workers: int, startup_script: str) -> None:
        try:
            listeners = slice_.net.listeners()
        except OSError as error:
            raise TpuTuiError(
                f"The addresses of slice {slice_.name} could not be taken", why=error.strerror or str(error)
            ) from error
        slice_.machines = []
        try:
            for index, listener in zip(range(workers), listeners, strict=True):
                spec = self._spec(slice_, index)
                write_startup_script(spec, startup_script)
                slice_.machines.append(await self._start_host(spec, listener))
        finally:
            for listener in listeners:
                listener.close()
        await asyncio.gather(*(self._await_ready(slice_, machine) for machine in slice_.machines))

    def _spec(self, slice_: _Slice, index: int) -> HostSpec:
        serial = next(self._serials, None)
        if serial is None:
            raise TpuTuiError("This local pod cannot have more workers", remedy="Start a new one.")
        return HostSpec(
            pod=self._pod,
            slice_name=slice_.name,
            index=index,
            serial=serial,
            address=slice_.net.addresses[index][0],
            hostname=slice_.hostname or f"t1v-n-{slice_.identity}-w-{index}",
            directory=str(self._directory / "slices" / slice_.name / f"w-{index}"),
            chips=slice_.chips,
            authorized_key=self._authorized_key,
            environment=dict(self.environment),
        )

    async def _start_host(self, spec: HostSpec, listener: socket.socket) -> _Machine:
        """Let the fork server start one host, and close this process's copy of the host's end of the pipe."""
        reader, writer = os.pipe()
        try:
            assert self._control is not None, "the fork server is not running"
            socket.send_fds(self._control, [spec.to_bytes()], [listener.fileno(), writer])
        except OSError as error:
            os.close(reader)
            raise TpuTuiError(
                "The local worker could not be started",
                worker=spec.index,
                why=f"the fork server has exited ({error})",
            ) from error
        finally:
            os.close(writer)
        life = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(life), os.fdopen(reader, "rb", buffering=0)
        )
        return _Machine(spec, life, transport)

    async def _await_ready(self, slice_: _Slice, machine: _Machine) -> None:
        spec = machine.spec
        answer: dict[str, Any] = {"error": f"not ready within {READY_TIMEOUT_S:.0f} s"}
        with contextlib.suppress(asyncio.TimeoutError):
            line = await within(machine.life.readline(), READY_TIMEOUT_S)
            answer = json.loads(line) if line else {"error": f"its process ended; see {self._directory}/hosts.log"}
        if "error" in answer:
            raise TpuTuiError("The local worker did not start", worker=spec.index, why=answer["error"])
        address, port = slice_.net.addresses[spec.index]
        machine.pid = answer["pid"]
        machine.worker = HostedWorker(spec.index, address, port, spec.hostname, answer["host_key"])
        machine.watch = asyncio.create_task(self._watch(machine))

    async def _watch(self, machine: _Machine) -> None:
        """Wait until a worker's host has exited, then end its jobs: they end with their machine."""
        while await machine.life.read(1):
            pass
        machine.alive = False
        await self._guardian.end([machine.spec.mark])
        self.exited(machine.spec.slice_name)

    async def stop(self, slice_name: str) -> None:
        """Stop every machine of the slice and all that runs on it; homes, keys and addresses are kept."""
        slice_ = self._slices.get(slice_name)
        if slice_ is None:
            return
        slice_.running = False
        for machine in slice_.machines:
            machine.alive = False
            if machine.watch is not None:
                machine.watch.cancel()
        await self._guardian.end([machine.spec.mark for machine in slice_.machines])
        for machine in slice_.machines:
            machine.transport.close()

    async def remove(self, slice_name: str) -> None:
        """Delete the slice, its homes included; a slice that does not exist is not an error."""
        await self.stop(slice_name)
        slice_ = self._slices.pop(slice_name, None)
        if slice_ is not None:
            slice_.net.close()
            shutil.rmtree(self._directory / "slices" / slice_name, ignore_errors=True)

    def authorize(self, slice_name: str, ssh_keys: str, os_login: Mapping[str, Sequence[str]] | None) -> None:
        """Authorize the keys of the metadata `ssh-keys` for the pod's user, or with OS Login those of each user."""
        for machine in self._machines_of(slice_name):
            write_login_keys(machine.spec, ssh_keys, os_login)

    def preempt(self, slice_name: str, index: int) -> None:
        """Kill one worker's host process, as a preemption would end the machine."""
        machine = self._slices[slice_name].machines[index]
        if machine.alive:
            os.kill(machine.pid, signal.SIGKILL)

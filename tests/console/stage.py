"""A stand-in for a pod: real run directories and real log bytes under the console, no network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests import run_records
from tui.checks.check_row import CheckRow
from tui.cloud.inventory import Listing
from tui.errors import CloudError, TpuTuiError
from tui.operator import LaunchRequest, Operator
from tui.operator.launches import Launches
from tui.operator.runs import Runs
from tui.operator.slices import Slices
from tui.pod.run import Run
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory
from tui.settings import Settings


@dataclass(frozen=True)
class Answered:
    """A worker's answer to a stop."""

    worker: int
    confirmed: bool
    exit_code: int | None = None
    detail: str = ""


@dataclass
class Planned:
    """A planned launch."""

    run: Run
    env: dict[str, str] = field(default_factory=dict)


def workers(count: int) -> tuple[Worker, ...]:
    return tuple(
        Worker(n, hostname=f"t1v-n-5f3a91c2-w-{n}", internal_ip=f"10.164.0.{43 + n}", external_ip=f"192.0.2.{n}")
        for n in range(count)
    )


def a_slice(name: str = "my-tpu", count: int = 4, **more: Any) -> Slice:
    known: dict[str, Any] = {
        "zone": "europe-west4-a",
        "accelerator_type": "v3-32",
        "runtime_version": "tpu-ubuntu2204-base",
        "state": "READY",
        "health": "HEALTHY",
        "workers": workers(count),
        "cores": 8 * count,
        "spot": False,
    }
    return Slice(name, **(known | more))


class StageOperator(Operator):
    """An operator without connections: slices, checks and answers are given, runs are real directories."""

    def __init__(self, home: Path, *slices: Slice, read_only: bool = False) -> None:
        super().__init__(Settings(home=home, project="my-project", zones=("europe-west4-a",), read_only=read_only))
        self.slices = StageSlices(self)
        self.launches = StageLaunches(self)
        self.runs = StageRuns(self)
        self.listed = Listing(slices)
        self.rows: list[CheckRow] = []
        self.answers: list[Answered] = []
        self.release: asyncio.Event | None = None
        self.stopped: list[str] = []
        self.deleted: list[str] = []
        self.hang = False


class StageSlices(Slices):
    """The slices that the stage lists."""

    def __init__(self, stage: StageOperator) -> None:
        super().__init__(stage.connections, lambda: stage.groups.change_slice)
        self.stage = stage

    async def list_all(self) -> Any:
        while self.stage.hang:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if isinstance(self.stage.listed, TpuTuiError):
            raise self.stage.listed
        return self.stage.listed

    async def get(self, ref: str) -> Slice:
        return next(s for s in self.stage.listed.slices if ref in (s.name, s.path))

    async def reach_workers(self, slice_: Slice) -> list[Worker]:
        return [
            replace(w, reachable=w.index != 3, error=None if w.index != 3 else "connection refused")
            for w in slice_.workers
        ]

    async def check(self, slice_: Slice, ports: Sequence[int] = ()) -> AsyncIterator[Any]:
        for row in self.stage.rows:
            yield row

    async def change(self, slice_: Slice, action: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        yield f"asked to {action} {slice_.name}"
        if self.stage.release is not None:
            await self.stage.release.wait()
        self.stage.deleted.append(slice_.path)
        yield f"{slice_.name} is {action}d"


class StageLaunches(Launches):
    """Launches that make a run directory and start nothing."""

    def __init__(self, stage: StageOperator) -> None:
        super().__init__(stage.connections)
        self.stage = stage

    async def check(self, request: LaunchRequest) -> AsyncIterator[Any]:
        for row in self.stage.rows:
            yield row

    async def plan(self, request: LaunchRequest) -> Any:
        run = make_run(request.slice_, argv=request.job.argv, name=request.name, env=dict(request.job.env))
        return Planned(run, dict(request.job.env))

    def describe(self, spec: Any) -> str:
        lines = [f"worker {w.index} {w.name}: {' '.join(spec.run.job.argv)}" for w in spec.run.workers]
        return "\n".join([f"run {spec.run.id}", *lines])

    async def start(self, spec: Any) -> RunDirectory:
        return RunDirectory.create(self.stage.settings.runs_home, spec.run)


class StageRuns(Runs):
    """Runs in directories, without keepers and workers."""

    def __init__(self, stage: StageOperator) -> None:
        super().__init__(stage.connections, lambda: stage.logs)
        self.stage = stage

    async def ensure_keeper(self, directory: RunDirectory) -> bool:
        return False

    async def refresh(self, directory: RunDirectory, fleet: Any = None) -> TpuTuiError | None:
        return None

    async def stop(self, directory: RunDirectory, grace: float = 30.0) -> AsyncIterator[Any]:
        self.stage.stopped.append(directory.id)
        for answer in self.stage.answers:
            if self.stage.release is not None:
                await self.stage.release.wait()
                self.stage.release.clear()
            yield answer


def unreachable() -> TpuTuiError:
    return CloudError(
        "cannot list the slices of europe-west4-a",
        why="the Cloud TPU API did not answer within 20 s",
        remedy="check the network, or --zone",
    )


def make_run(slice_: Slice, **more: Any) -> Run:
    values: dict[str, Any] = {
        "id": "resnet-20261121-090000-a1b2",
        "argv": ("python3", "-m", "trainer.train", "--epochs", "3"),
        "zone": slice_.zone,
        "cores_per_worker": 8,
        "created": "2026-11-21T09:00:00Z",
        **{name: value for name, value in more.items() if value is not None},
    }
    run_id = values.pop("id")
    return run_records.make_run(run_id, slice_=slice_.name, workers=slice_.workers, **values)


def begin(directory: RunDirectory) -> None:
    """Record every phase of a launch as done."""
    directory.append_event("state", state="preparing", cause=None)
    for phase in ("connect", "prepare", "barrier", "start", "confirm"):
        for worker in directory.run.workers:
            directory.append_event("phase", worker=worker.index, phase=phase, status="done", detail="")
    directory.append_event("state", state="running", cause=None)


def write(directory: RunDirectory, worker: int, data: bytes, when: float | None = None) -> None:
    """Append a batch to a mirror, then record its arrival."""
    path = directory.log_path(worker)
    with path.open("ab") as log:
        log.write(data)
    directory.append_arrival(worker, path.stat().st_size, when if when is not None else time.time())


def training_line(core: int, epoch: int, step: int, loss: float | str, rate: float, clock: str = "02:38:57") -> bytes:
    shown = loss if isinstance(loss, str) else f"{loss:.5f}"
    rates = f"Rate={rate:.2f} GlobalRate={rate:.2f}"
    line = f"| Training Device=xla:{core % 2}/{core} Epoch={epoch} Step={step} Loss={shown} {rates} Time={clock}\n"
    return line.encode()


def train(directory: RunDirectory, steps: Sequence[int], *, cores: int = 8, epoch: int = 1) -> None:
    """Append training lines of every core: the loss falls, core 13 lags, core 22 turns nan."""
    interval = steps[1] - steps[0] if len(steps) > 1 else 1
    for step in steps:
        clock = f"02:{38 + step // 60 % 20:02d}:{step % 60:02d}"
        for worker in directory.run.workers:
            lines = []
            for core in range(worker.index * cores, (worker.index + 1) * cores):
                loss: float | str = 6.9 / (1 + step / 40) + core % 5 * 0.01
                if core == 22 and step > 60:
                    loss = "nan"
                reached = (step - step // 3) // interval * interval if core == 13 else step
                lines.append(
                    training_line(core, epoch, reached, loss, 250 + core % 7 * 3.1 - (90 if core == 13 else 0), clock)
                )
            write(directory, worker.index, b"".join(lines), time.time() - steps[-1] + step)

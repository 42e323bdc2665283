"""A pod of real OpenSSH servers with only coreutils, util-linux and sh on their PATH, and the home of its runs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.run_records import make_run
from tests.runs.pipes import has_ended, tagged
from tests.sshd import OpensshWorker
from tests.waiting import wait_until
from tui.pod.run import RunState, make_run_id
from tui.pod.worker import Worker
from tui.runs.keeper.start import start_keeper
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec, Preflight
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import RunStatus, status_of
from tui.runs.worker.stop import StopAnswer, stop_run

SECRET = "hush-hush-hush"
BRISK = KeeperTimeouts(drain=0.5, lost_after=3.0, gone_after=2.0, answer=1.0, restart_pause=0.2)
"""Waits short enough for tests, long enough that a second failure within milliseconds is not taken for the first."""


class Pod:
    """Workers, and the home directory of the runs launched on them."""

    def __init__(self, workers: Sequence[OpensshWorker], home: Path) -> None:
        self.workers = workers
        self.home = home
        self.access = workers[0].access()
        self.launched: list[RunDirectory] = []
        self.timeouts = BRISK
        self.preflight: Preflight | None = None

    @property
    def launch_workers(self) -> tuple[Worker, ...]:
        """The workers for a launch."""
        return tuple(worker.worker for worker in self.workers)

    def spec(self, *argv: str, **fields: object) -> LaunchSpec:
        workers = self.launch_workers
        values: dict[str, object] = {"runtime": "none", "grace": 1.0, "lease": 3.0, **fields}
        run = make_run(make_run_id("ssh"), "ssh", argv, workers, env={"MY_TOKEN": SECRET}, **values)
        return LaunchSpec(
            run, {"MY_TOKEN": SECRET}, self.access, keeper_timeouts=self.timeouts, preflight=self.preflight
        )

    def launch(self, *argv: str, **fields: object) -> RunDirectory:
        spec = self.spec(*argv, **fields)
        directory = RunDirectory.create(self.home / "runs", spec.run)
        self.launched.append(directory)
        start_keeper(directory, spec)
        return directory

    def running(self, *argv: str, **fields: object) -> RunDirectory:
        directory = self.launch(*argv, **fields)
        wait_until(lambda: status_of(directory).state is not RunState.PREPARING)
        assert status_of(directory).state is RunState.RUNNING, status_of(directory).cause
        return directory

    def stop(self, directory: RunDirectory, grace: float = 1.0) -> list[StopAnswer]:
        async def all_answers() -> list[StopAnswer]:
            return [answer async for answer in stop_run(directory, self.access, grace=grace)]

        return sorted(asyncio.run(all_answers()), key=lambda answer: answer.worker)

    def remote(self, directory: RunDirectory, worker: int) -> Path:
        return self.workers[worker].home / ".tpu-tui" / "runs" / directory.id / str(worker)

    def end_jobs(self, directory: RunDirectory) -> None:
        """Let jobs end that wait for the file `end` in their home, and wait until every worker knows how."""
        for worker in self.workers:
            (worker.home / "end").touch()
        wait_until(lambda: all(has_ended(self.remote(directory, index)) for index in range(len(self.workers))))

    def tags(self, directory: RunDirectory) -> list[str]:
        found = [self.remote(directory, index) / "tag" for index in range(len(self.workers))]
        return [path.read_text().strip() for path in found if path.exists()]

    def end_runs(self) -> None:
        """Kill keepers, processes of the runs, and supervisors, which would clean up during the next test."""
        for directory in self.launched:
            attendance = directory.keeper_status()
            if attendance.alive and attendance.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(attendance.pid, signal.SIGKILL)
        found = [tag for worker in self.workers for tag in worker.home.glob(".tpu-tui/runs/*/*/tag")]
        on_record = (worker.tag for directory in self.launched for worker in status_of(directory).workers)
        tags = {*filter(None, (*(tag.read_text().strip() for tag in found), *on_record))}
        for pid in (*tagged(*tags), *supervisors(directory.id for directory in self.launched)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def mirrors_are_exact(self, directory: RunDirectory) -> bool:
        return all(
            digest(directory.log_path(index)) == digest(self.remote(directory, index) / "log")
            for index in range(len(self.workers))
        )


def supervisors(runs: Iterable[str]) -> list[int]:
    """Return the processes of worker.sh that supervise any of these runs."""
    wanted, found = {run.encode() for run in runs}, []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"supervise" in words and not wanted.isdisjoint(words):
                found.append(int(path.parent.name))
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def over(directory: RunDirectory, seconds: float = 60) -> RunStatus:
    """Wait until a run is over and its logs are complete, and return its status."""
    wait_until(lambda: status_of(directory).is_whole, seconds=seconds)
    return status_of(directory)


def unattended(directory: RunDirectory) -> None:
    wait_until(lambda: not directory.keeper_status().alive)

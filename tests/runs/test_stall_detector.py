"""Notes about workers and cores that are alive without progress, and about their recovery."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.pod.job_options import JobOptions
from tui.pod.run import Run, make_run_id
from tui.pod.worker import Worker
from tui.runs.health import stall_detector
from tui.runs.health.core_watch import SAMPLE_BYTES
from tui.runs.health.reachability import Reachability
from tui.runs.health.stall_detector import StallDetector
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.event_log import Event
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings.home import make_private
from tui.settings.profiles import profile_path

pytestmark = [pytest.mark.timing, pytest.mark.py310]

NEVER = 10_000.0
_ENDED_WITHOUT_STRAGGLERS = """
import asyncio, sys
from pathlib import Path
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, make_run_id
from tui.pod.worker import Worker
from tui.runs.health.reachability import Reachability
from tui.runs.record.run_directory import RunDirectory
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.health.stall_detector import StallDetector

directory = RunDirectory.create(Path(sys.argv[1]), Run(make_run_id("w"), "pod", JobOptions(("true",)), (Worker(0),)))
directory.log_path(0).write_text("Epoch=1 Step=2 Loss=3.0\\n")
asyncio.run(StallDetector(directory, Reachability(KeeperTimeouts()), KeeperTimeouts()).conclude())
print(sorted(name for name in sys.modules if name.startswith("tui.logs.")))
"""


class Watched:
    """A run of four workers whose logs are written by a test."""

    def __init__(self, home: Path) -> None:
        run = Run(make_run_id("w"), "pod", JobOptions(("true",)), tuple(Worker(index) for index in range(4)))
        self.directory = RunDirectory.create(home / "runs", run)
        self.reachability = Reachability(KeeperTimeouts())

    def write(self, worker: int, text: str) -> None:
        with self.directory.log_path(worker).open("a") as log:
            log.write(text)
        self.reachability.mark_grown(worker)

    def train(self, worker: int, step: int, loss: str = "2.50000") -> None:
        """Write the lines of one step of the worker's two cores."""
        for core in (2 * worker, 2 * worker + 1):
            line = f"| Training Device=xla:0/{core} Epoch=1 Step={step} Loss={loss} Rate=9.00 GlobalRate=9.00"
            self.write(worker, f"{line} Time=02:38:57\n")

    def stall_events(self, stall: str) -> list[Event]:
        return [event for event in self.directory.events()[0] if event.get("stall") == stall]

    @contextlib.asynccontextmanager
    async def watch(self, **thresholds: float) -> AsyncIterator[None]:
        timeouts = KeeperTimeouts(**{"stalled_after": NEVER, "behind_after": NEVER, **thresholds})
        task = asyncio.ensure_future(StallDetector(self.directory, self.reachability, timeouts).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path))
    monkeypatch.setattr(stall_detector, "POLL_INTERVAL_S", 0.1)
    monkeypatch.setattr(stall_detector, "LOAD_DELAY_S", 0.1)
    return Watched(tmp_path)


def notes(directory: RunDirectory) -> list[str]:
    return [event.get("text") for event in directory.events()[0] if event.kind == "note"]


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (None, "no such profile: lab"),
        ("[dialects]\nmine = 'step (?P<step>\\d+)'", "mine"),
    ],
)
async def test_why_the_cores_are_watched_without_the_settings_of_their_profile_is_recorded_once(
    watched: Watched, tmp_path: Path, profile: str | None, why: str
) -> None:
    directory = watched.directory
    if profile is not None:
        path = profile_path(tmp_path, "lab")
        make_private(path.parent)
        path.write_text(profile)
        path.chmod(0o600)
    directory.update_run(replace(directory.run, profile="lab"))
    async with watched.watch(behind_after=0.2):
        await until(lambda: notes(directory))
        for step in range(5):
            watched.train(0, step)
            await asyncio.sleep(0.1)
    (note,) = notes(directory)
    assert note.startswith("the cores are watched with default dialects and thresholds: ")
    assert why in note


async def until(condition: Callable[[], object], meanwhile: Callable[[], Any] = lambda: None) -> None:
    """Wait for a condition, calling `meanwhile` between the checks."""
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        meanwhile()
        await asyncio.sleep(0.05)


async def test_a_silent_worker_is_named_until_it_writes_again(watched: Watched) -> None:
    def others() -> None:
        for worker in (0, 1, 3):
            watched.write(worker, "on\n")

    async with watched.watch(stalled_after=2.0):
        await until(lambda: watched.stall_events("silent"), others)
        assert status_of(watched.directory).silent == (2,)
        await until(lambda: watched.stall_events("over"), lambda: (others(), watched.write(2, "again\n")))
    (silent,), (over,) = watched.stall_events("silent"), watched.stall_events("over")
    assert silent.get("text") == "has written nothing for 2 s: hanging?"
    assert (silent.worker, silent.get("workers"), over.get("workers")) == (2, [2], [2])
    assert over.get("text") == "writes again"
    seen = status_of(watched.directory)
    assert (seen.silent, seen.notes[0]) == ((), "worker 2: has written nothing for 2 s: hanging?")


async def test_a_whole_run_that_is_silent_is_one_note_and_ended_workers_are_not_in_it(watched: Watched) -> None:
    watched.reachability.mark_ended(3)
    async with watched.watch(stalled_after=0.5):
        await until(lambda: watched.stall_events("silent"))
    (silent,) = watched.stall_events("silent")
    assert silent.get("text") == "no worker has written anything for 0.5 s: hanging?"
    assert silent.get("workers") == [0, 1, 2]


async def test_a_worker_out_of_reach_is_not_called_silent(watched: Watched) -> None:
    watched.reachability.mark_unreachable(1)
    async with watched.watch(stalled_after=0.5):
        await until(lambda: watched.stall_events("silent"))
    assert {worker for event in watched.stall_events("silent") for worker in event.get("workers")} == {0, 2, 3}


async def test_a_loss_that_is_not_a_number_is_noted_once_with_its_cores(watched: Watched) -> None:
    for worker in range(4):
        watched.train(worker, 10)
    async with watched.watch():
        watched.train(1, 20, "nan")
        await until(lambda: watched.stall_events("loss"))
        watched.train(1, 30, "nan")
        watched.train(3, 30, "inf")
        await until(lambda: len(watched.stall_events("loss")) == 2)
    first, second = watched.stall_events("loss")
    assert first.get("text") == "the loss is nan on cores 2-3 by step 20"
    assert (first.worker, first.get("cores")) == (1, [2, 3])
    assert second.get("text") == "the loss is inf on cores 6-7 by step 30"


async def test_a_loss_that_is_not_a_number_is_found_in_a_bar_that_never_ends_its_line(watched: Watched) -> None:
    steps = iter(range(1, 1_000_000))

    def draw() -> None:
        step = next(steps)
        watched.write(1, f"\rEpoch 1:  9%|#  | {step}/1000000 [00:09<09:59, 1.00it/s, loss=nan]")

    async with watched.watch():
        await until(lambda: watched.stall_events("loss"), draw)
    (event,) = watched.stall_events("loss")
    assert (event.get("workers"), [row["loss"] for row in event.get("found")]) == ([1], ["nan"])


async def test_a_core_that_stays_behind_is_noted_and_noted_again_when_it_has_caught_up(watched: Watched) -> None:
    steps = iter(range(0, 1_000_000, 10))

    def three_go_on() -> None:
        step = next(steps)
        for worker in (0, 1, 3):
            watched.train(worker, step)

    def all_go_on() -> None:
        step = next(steps)
        for worker in range(4):
            watched.train(worker, step)

    async with watched.watch(behind_after=0.5):
        watched.train(2, 0)
        await until(lambda: watched.stall_events("behind"), three_go_on)
        await until(lambda: watched.stall_events("over"), all_go_on)
    behind, over = watched.stall_events("behind")[0], watched.stall_events("over")[0]
    assert str(behind.get("text")).startswith("cores 4-5: ")
    assert "steps behind the median for" in str(behind.get("text"))
    assert behind.worker == 2
    assert (behind.get("cores"), over.get("cores")) == ([4, 5], [4, 5])


async def test_a_core_far_behind_when_its_run_ends_is_noted(watched: Watched) -> None:
    steps = iter(range(0, 1_000_000, 10))

    def three_go_on() -> None:
        step = next(steps)
        for worker in (0, 1, 3):
            watched.train(worker, step)

    watcher = StallDetector(
        watched.directory, watched.reachability, KeeperTimeouts(stalled_after=NEVER, behind_after=0.5)
    )
    task = asyncio.ensure_future(watcher.run())
    watched.train(2, 0)
    await until(lambda: watched.stall_events("behind"), three_go_on)
    for worker in range(4):
        watched.write(worker, "Total Train Time: 0:10:00\n")
        watched.reachability.mark_ended(worker)
    await watcher.conclude()
    await asyncio.wait_for(task, 60)
    assert not watched.stall_events("over")
    (end,) = watched.stall_events("end")
    last = next(steps) - 10
    assert end.get("text") == f"cores 4-5 were up to {last} steps behind when the run ended"
    assert [(row["core"], row["steps_behind"]) for row in end.get("found")] == [(4, last), (5, last)]
    assert [
        (one.core, one.worker, one.steps_behind, one.is_open) for one in status_of(watched.directory).findings
    ] == [
        (4, 2, last, True),
        (5, 2, last, True),
    ]


def test_the_end_of_a_run_without_stragglers_loads_no_parser_of_logs(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ENDED_WITHOUT_STRAGGLERS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


async def test_only_the_newest_lines_of_a_flood_are_examined(watched: Watched) -> None:
    async with watched.watch():
        watched.write(
            0, "| Training Device=xla:0/0 Epoch=1 Step=1 Loss=nan Rate=9.00 GlobalRate=9.00 Time=02:38:57\n"
        )
        watched.write(0, "x" * 50 + "\n" + ("chatter " * 10 + "\n") * (SAMPLE_BYTES // 40))
        watched.train(0, 2, "inf")
        await until(lambda: watched.stall_events("loss"))
    (event,) = watched.stall_events("loss")
    assert "inf" in str(event.get("text"))

"""Actions at the end of a run: the keeper executes each once and records it in the events."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.pods import pod_home, running_pod
from tests.waiting import until
from tui.cloud.storage.buckets import Buckets, parse_url
from tui.errors import UsageError
from tui.localpod.pod import LocalPod
from tui.operator import LaunchRequest, Operator
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState, make_run_id
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.runs.discovery import FoundRun, import_run
from tui.runs.keeper import on_end
from tui.runs.keeper.on_end import run_pending_actions
from tui.runs.keeper.start import is_complete
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_request import check_request
from tui.runs.launch.on_end_actions import (
    actions_of,
    check_on_end,
    describe_actions,
    parse_action,
    pending_actions,
)
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings import load
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

__all__ = ["pod_home"]

pytestmark = pytest.mark.timing

DEADLINE_S = 90.0


def run_with(*on_end: str) -> Run:
    return Run(make_run_id("end"), "pod", JobOptions(("true",), on_end=on_end), (Worker(0),), zone="z")


@pytest.mark.parametrize(
    "text",
    ["", "explode", "delete-slice:pod", "command", "command: ", "report:/tmp/here", "report:gs://", "Report"],
)
def test_an_unknown_action_is_refused_with_a_list_of_the_actions(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_action(text)
    assert "delete-slice" in refused.value.remedy


def test_the_slice_is_deleted_last_and_no_action_is_done_twice() -> None:
    run = run_with("delete-slice", "command:echo a:b", "report", "report:gs://bucket/runs", "report")
    kinds = [str(action) for action in actions_of(run)]
    assert kinds == ["command:echo a:b", "report", "report:gs://bucket/runs", "delete-slice"]


def test_a_dry_run_says_what_will_be_done(tmp_path: Path) -> None:
    shown = describe_actions(run_with("delete-slice", "command:echo done", "report:gs://bucket/runs"))
    assert shown.splitlines() == [
        "on end: run here, with sh: echo done",
        "on end: write the report into the run's directory and upload it to gs://bucket/runs",
        "on end: delete slice pod, unless part of a run may still be alive there",
    ]
    assert describe_actions(run_with()) == ""


def test_slice_actions_are_refused_beforehand_for_a_hosts_file_and_a_group() -> None:
    with pytest.raises(UsageError, match="delete-slice"):
        check_request(LaunchRequest(Slice("lab"), JobOptions(("true",), on_end=("delete-slice",))))
    check_on_end(["report", "command:true"], Slice("lab"))
    group = Slice("pod", zone="z", source="instance_group", workers=(Worker(0),))
    with pytest.raises(UsageError, match="stop-slice"):
        check_on_end(["stop-slice"], group)
    check_on_end(["delete-slice"], replace(group, workers=(Worker(0), Worker(1))))


def test_stop_slice_is_refused_for_a_slice_of_several_workers() -> None:
    slice_ = Slice("pod", zone="z", workers=(Worker(0), Worker(1)))
    with pytest.raises(UsageError, match="stop-slice") as refused:
        check_request(LaunchRequest(slice_, JobOptions(("true",), on_end=("report", "stop-slice"))))
    assert "slices of one worker only, and this one has 2" in refused.value.why
    assert "--on-end delete-slice" in refused.value.remedy
    check_request(LaunchRequest(slice_, JobOptions(("true",), on_end=("delete-slice",))))
    check_request(LaunchRequest(replace(slice_, workers=(Worker(0),)), JobOptions(("true",), on_end=("stop-slice",))))


def test_the_actions_are_in_the_record_and_stay_pending_until_they_are_done(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, run_with("report", "command:true"))
    assert Run.from_json(json.loads(json.dumps(directory.run.to_json()))) == directory.run
    directory.append_event("state", state="succeeded", cause=None)
    assert not is_complete(directory)
    directory.append_event("note", text="…", on_end="report", status="started")
    assert [str(action) for action in pending_actions(directory)] == ["report", "command:true"]
    directory.append_event("note", text="…", on_end="report", status="done")
    directory.append_event("note", text="…", on_end="command:true", status="failed")
    assert pending_actions(directory) == []
    assert is_complete(directory)


@pytest.mark.parametrize("phase", ["connect", "check", "prepare", "start"])
def test_a_launch_that_failed_before_its_start_phase_has_no_pending_actions(tmp_path: Path, phase: str) -> None:
    directory = RunDirectory.create(tmp_path, run_with("report", "delete-slice"))
    directory.append_event("phase", worker=0, phase=phase, status="failed", detail="no such command")
    directory.append_event("state", state="failed", cause="no such command")
    assert [str(action) for action in pending_actions(directory)] == (["report", "delete-slice"] * (phase == "start"))
    assert is_complete(directory) == (phase != "start")


def test_a_run_found_on_its_workers_is_imported_without_its_actions(tmp_path: Path) -> None:
    found = FoundRun(run_with("command:touch /owned", "delete-slice"), {0: Answer("run", "found 0 running")})
    directory = import_run(found, tmp_path)
    assert RunDirectory.open(directory.path).run.job.on_end == ()
    assert "command:touch /owned" in status_of(directory).notes[0]


class Scene:
    """A local pod and the runs on it."""

    def __init__(self, pod: LocalPod, operator: Operator) -> None:
        self.pod = pod
        self.operator = operator

    async def launched(self, *argv: str, on_end: tuple[str, ...] = ()) -> RunDirectory:
        job = JobOptions(argv, runtime="cpu", grace=1.0, on_end=on_end)
        request = LaunchRequest(await self.operator.slices.get("local"), job)
        spec = await self.operator.launches.plan(request)
        return await self.operator.launches.start(
            replace(spec, keeper_timeouts=KeeperTimeouts(drain=0.2, answer=1.0))
        )

    @staticmethod
    async def done(directory: RunDirectory) -> dict[str, str]:
        """Wait until the keeper has ended; return the outcome of each action."""
        await until(lambda: status_of(directory).state.is_over, "the run is over", seconds=DEADLINE_S)
        await until(lambda: not directory.keeper_status().alive, "its keeper has ended", seconds=DEADLINE_S)
        notes = [event for event in directory.events()[0] if event.get("on_end")]
        return {str(note.get("on_end")): f"{note.get('status')}: {note.get('text')}" for note in notes}

    async def names(self) -> list[str]:
        return [slice_.name for slice_ in (await self.operator.slices.list_all()).slices]


@pytest_asyncio.fixture
async def scene(pod_home: Path) -> AsyncIterator[Scene]:
    async with running_pod(pod_home, workers=2) as pod:
        operator = Operator(load({"profile": "local"}))
        try:
            yield Scene(pod, operator)
        finally:
            await operator.close()


@pytest_asyncio.fixture
async def small_scene(pod_home: Path) -> AsyncIterator[Scene]:
    """Yield a scene with a slice of one worker, which can be stopped."""
    async with running_pod(pod_home, workers=1) as pod:
        operator = Operator(load({"profile": "local"}))
        try:
            yield Scene(pod, operator)
        finally:
            await operator.close()


async def test_report_command_and_slice_are_done_in_order_and_recorded(scene: Scene, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = f'command:echo "$TPU_TUI_STATE $TPU_TUI_RUN" >{seen}; echo written'
    directory = await scene.launched("echo", "hello", on_end=("delete-slice", command, "report"))
    outcomes = await scene.done(directory)
    assert list(outcomes) == [command, "report", "delete-slice"]
    assert outcomes[command] == f"done: on end: {command} done: written"
    assert seen.read_text() == f"succeeded {directory.id}\n"
    assert outcomes["report"].startswith("done: "), outcomes
    written = {path.name for path in directory.path.iterdir()}
    assert {"report.html", "report.md", "report.json", "report.txt", "cores.csv", "curves.csv"} <= written
    assert outcomes["delete-slice"].startswith("done: "), outcomes
    assert await scene.names() == []
    assert status_of(directory).state is RunState.SUCCEEDED


async def test_a_report_is_uploaded_in_every_format_under_the_runs_name(scene: Scene) -> None:
    action = f"report:{scene.pod.announcement()['bucket']}/runs"
    directory = await scene.launched("echo", "hello", on_end=(action,))
    outcomes = await scene.done(directory)
    assert outcomes[action].startswith("done: "), outcomes
    suffixes = ("html", "md", "json", "txt", "cores.csv", "curves.csv")
    folder = parse_url(action.removeprefix("report:"))
    buckets = Buckets(scene.operator.settings)
    try:
        there = [await buckets.exists(folder / f"{directory.id}.{suffix}") for suffix in suffixes]
    finally:
        await buckets.close()
    assert there == [True] * len(suffixes)


async def test_a_failed_action_is_recorded_and_the_others_are_done(small_scene: Scene) -> None:
    bad = "command:echo no room >&2; exit 7"
    directory = await small_scene.launched("sh", "-c", "exit 3", on_end=(bad, "stop-slice"))
    outcomes = await small_scene.done(directory)
    assert outcomes[bad] == f"failed: on end: {bad} failed: it ended with 7: no room"
    assert outcomes["stop-slice"].startswith("done: "), outcomes
    assert (await small_scene.operator.slices.get("local")).state == "STOPPED"
    assert status_of(directory).state is RunState.FAILED


async def test_a_slice_on_which_another_run_is_alive_is_left_alone(scene: Scene, tmp_path: Path) -> None:
    wait = f"command:while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    first = await scene.launched("true", on_end=(wait, "delete-slice"))
    await until(lambda: status_of(first).state.is_over, "the first run is over", seconds=DEADLINE_S)
    second = await scene.launched("sleep", "1000")
    await until(lambda: status_of(second).state is RunState.RUNNING, "the second run is running", seconds=DEADLINE_S)
    (tmp_path / "go").touch()
    outcomes = await scene.done(first)
    assert outcomes["delete-slice"] == f"refused: on end: delete-slice is not done: {second.id} is alive there"
    assert await scene.names() == ["local"]
    assert [answer.confirmed async for answer in scene.operator.runs.stop(second, 0.5)] == [True, True]


async def running_with(scene: Scene, tmp_path: Path, *on_end: str) -> RunDirectory:
    """Launch a run that goes on until the file `end` exists in `tmp_path`."""
    directory = await scene.launched("sh", "-c", f"until [ -e {tmp_path}/end ]; do sleep 0.1; done", on_end=on_end)
    await until(lambda: status_of(directory).state is RunState.RUNNING, "the run is running", seconds=DEADLINE_S)
    return directory


def copied(directory: RunDirectory, home: Path) -> RunDirectory:
    """Copy the directory into another home, as `cp -r` or a backup does."""
    home.mkdir()
    shutil.copytree(directory.path, home / directory.id)
    return RunDirectory.open(home / directory.id)


async def no_report(_directory: RunDirectory, _folder: str) -> list[str]:
    return []


async def acted(scene: Scene, copy: RunDirectory) -> list[str]:
    """Run the pending actions as a keeper of the copy does after the end; return their notes."""
    copy.append_event("state", state="succeeded", cause=None)
    async with Fleet(copy.run.workers, await scene.operator.connections.access()) as fleet:
        await run_pending_actions(copy, fleet, no_report)
    notes = [event for event in copy.events()[0] if event.get("on_end")]
    return [str(note.get("text")) for note in notes if note.get("status") in ("done", "refused")]


@pytest.mark.parametrize("when", ["before the end", "after the end"])
async def test_a_copy_of_the_directory_does_not_repeat_an_action(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(on_end, "COPY_DELAY_S", 0.0)
    directory = await running_with(scene, tmp_path, f"command:echo done >>{tmp_path}/did")
    copy = copied(directory, tmp_path / "elsewhere")
    (tmp_path / "end").touch()
    await scene.done(directory)
    if when == "after the end":
        shutil.rmtree(tmp_path / "elsewhere")
        copy = copied(directory, tmp_path / "elsewhere")
        events = copy.path / "events.jsonl"
        remaining = [line for line in events.read_bytes().splitlines(keepends=True) if b"on_end" not in line]
        events.write_bytes(b"".join(remaining))
    texts = await acted(scene, copy)
    assert [text.partition(" is not done: ")[2] for text in texts] == [
        "another copy of this run's directory does it, or has done it"
    ]
    assert (tmp_path / "did").read_text() == "done\n"
    assert pending_actions(copy) == []


async def test_a_directory_from_a_backup_does_actions_that_are_not_done_yet(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_end, "COPY_DELAY_S", 0.0)
    directory = await running_with(scene, tmp_path, f"command:echo done >>{tmp_path}/did")
    copy = copied(directory, tmp_path / "elsewhere")
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    (tmp_path / "end").touch()
    assert len(await acted(scene, copy)) == 1
    assert (tmp_path / "did").read_text() == "done\n"
    assert await scene.operator.runs.ensure_keeper(directory)
    await scene.done(directory)
    assert status_of(directory).state is RunState.SUCCEEDED
    assert "another copy of this run's directory does it, or has done it" in status_of(directory).notes[-1]
    assert (tmp_path / "did").read_text() == "done\n"


async def test_a_copy_does_nothing_once_the_workers_that_record_its_actions_are_gone(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_end, "COPY_DELAY_S", 0.0)
    directory = await running_with(scene, tmp_path, f"command:echo done >>{tmp_path}/did", "delete-slice")
    copy = copied(directory, tmp_path / "elsewhere")
    (tmp_path / "end").touch()
    await scene.done(directory)
    assert await scene.names() == []
    texts = await acted(scene, copy)
    assert len(texts) == 2
    assert all("no worker knows whether it was done there" in text for text in texts)
    assert (tmp_path / "did").read_text() == "done\n"


async def test_a_command_whose_keeper_was_killed_is_not_started_again(scene: Scene, tmp_path: Path) -> None:
    action = f"command:echo begun >>{tmp_path}/did; exec sleep 1000"
    directory = await scene.launched("true", on_end=(action, "report"))
    await until((tmp_path / "did").exists, "the command runs", seconds=DEADLINE_S)
    os.kill(directory.keeper_status().pid or 0, signal.SIGKILL)
    await until(lambda: not directory.keeper_status().alive, "its keeper has been killed", seconds=DEADLINE_S)
    assert await scene.operator.runs.ensure_keeper(directory)
    outcomes = await scene.done(directory)
    assert outcomes[action].endswith("its keeper ended while it was being carried out, so it may have been done")
    assert outcomes["report"].startswith("done: ")
    assert (tmp_path / "did").read_text() == "begun\n"


async def test_an_action_that_this_machine_cannot_do_is_recorded_as_failed(
    small_scene: Scene, tmp_path: Path
) -> None:
    directory = await running_with(small_scene, tmp_path, "command:true", "stop-slice")
    (directory.path / "on-end.log").mkdir()
    (tmp_path / "end").touch()
    outcomes = await small_scene.done(directory)
    assert outcomes["command:true"] == "failed: on end: command:true failed: Is a directory"
    assert outcomes["stop-slice"].startswith("done: ")


async def test_read_only_mode_starts_no_keeper_and_lets_a_keeper_stop_no_slice(
    small_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await small_scene.launched("true", on_end=("stop-slice",))
    events = directory.path / "events.jsonl"
    await small_scene.done(directory)
    remaining = [line for line in events.read_bytes().splitlines(keepends=True) if b"on_end" not in line]
    events.write_bytes(b"".join(remaining))
    async for _ in small_scene.operator.slices.change(await small_scene.operator.slices.get("local"), "start"):
        pass
    reader = Operator(load({"profile": "local", "read_only": True}))
    assert not await reader.runs.ensure_keeper(directory)
    await reader.close()
    monkeypatch.setenv("TPU_TUI_READ_ONLY", "1")
    assert await small_scene.operator.runs.ensure_keeper(directory)
    outcomes: dict[str, Any] = await small_scene.done(directory)
    assert outcomes["stop-slice"] == "refused: on end: stop-slice is not done: refused by --read-only"
    assert (await small_scene.operator.slices.get("local")).state == "READY"

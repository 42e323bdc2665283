"""What commands print while they wait for a run: lines about its events, and its log."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Shell
from tui.commands import attach
from tui.commands.attach import EventPrinter, KeeperSupervisor
from tui.commands.terminal import stdio
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.operator import Operator
from tui.operator.runs import Runs
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.failure_rules import WorkerOutcome, explain, read_last_lines
from tui.runs.record.event_log import Event
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_directory import RunDirectory
from tui.settings import Settings

pytestmark = pytest.mark.timing

NIGHT = RunDirectory(Path("nowhere"), Run("night", "pod", JobOptions(("true",)), ()))


def printed(capsys: pytest.CaptureFixture[str], *items: Event | KeeperStatus) -> list[str]:
    printer = EventPrinter(NIGHT, Output())
    for item in items:
        printer.print(item)
    printer.flush()
    return capsys.readouterr().err.splitlines()


def event(kind: str, worker: int | None = None, **fields: Any) -> Event:
    return Event("2026-01-01T00:00:00Z", kind, worker, fields)


def failed(worker: int, detail: str, remedy: str = "") -> Event:
    return event("phase", worker, phase="prepare", status="failed", detail=detail, remedy=remedy)


def test_a_reason_that_many_workers_have_is_reported_once_and_its_remedy_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopping = event("state", state="stopping")
    over = event("state", 0, state="failed", cause="worker 0: no room", remedy="make some")
    phases = [failed(worker, "no room", "make some") for worker in (0, 3, 1)]
    assert printed(capsys, *phases, failed(2, "no such command"), stopping, over) == [
        "worker 0: prepare failed: no room",
        "  → make some",
        "workers 1,3: prepare failed for the same reason as worker 0",
        "worker 2: prepare failed: no such command",
        "night stopping",
        "night failed: worker 0: no room",
    ]


def test_a_remedy_that_different_reasons_share_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    one, another = "10.0.0.1 refused", "10.0.0.2 refused"
    phases = failed(0, one, "wait"), failed(1, another, "wait"), failed(2, one, "wait")
    assert printed(capsys, *phases, event("state", state="failed")) == [
        "worker 0: prepare failed: 10.0.0.1 refused",
        "  → wait",
        "worker 1: prepare failed: 10.0.0.2 refused",
        "worker 2: prepare failed for the same reason as worker 0",
        "night failed",
    ]


def test_a_remedy_is_reported_again_for_a_later_failure(capsys: pytest.CaptureFixture[str]) -> None:
    over = event("state", state="failed", cause="no room", remedy="make some")
    lines = printed(capsys, failed(0, "no room", "make some"), over, failed(1, "no room at all", "make some"))
    assert lines[-2:] == ["worker 1: prepare failed: no room at all", "  → make some"]


def test_phases_without_a_failure_print_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, event("phase", 0, phase="connect", status="done")) == []


def test_the_absence_of_a_keeper_is_reported_with_its_time_and_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, KeeperStatus(False, 0.0), KeeperStatus(False, None), KeeperStatus(True, 5.0, 1))
    assert lines[0].startswith("the keeper of night has exited. ")
    assert lines[1] == "  → start another keeper with tpu-tui attach night"
    assert lines[-1] == "night has a keeper again"
    assert "since 1970-01-01 00:01:00Z" in printed(capsys, KeeperStatus(False, 60.0))[0]


def test_the_time_until_another_keeper_starts_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter(NIGHT, Output())
    for pause in (0.0, 30.0):
        printer.print(KeeperStatus(False), another_in=pause)
    at_once, later = capsys.readouterr().err.splitlines()
    assert at_once == "the keeper of night has exited; another one starts now"
    assert later == "the keeper of night has exited; another one starts in 30 s"


def test_the_remedy_of_an_end_is_reported_unless_the_cause_contains_it(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "worker 2: command not found: x. See that it is there"
    assert printed(capsys, event("state", state="failed", cause=cause, remedy="see that it is there")) == [
        f"night failed: {cause}"
    ]
    assert printed(capsys, event("state", state="failed", cause="no room", remedy="make room")) == [
        "night failed: no room",
        "  → make room",
    ]


def ended(worker: int, **how: Any) -> Event:
    return event("exit", worker, **how)


def test_workers_that_end_alike_are_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    failed_first, stopped = ended(3, exit_code=7), [ended(worker, signal=15) for worker in (0, 2, 1)]
    assert printed(capsys, failed_first, *stopped, ended(5, exit_code=None), event("state", state="failed")) == [
        "worker 3: ended, exit code 7",
        "workers 0-2: ended, killed by signal 15",
        "worker 5: ended, exit code unknown",
        "night failed",
    ]
    assert printed(capsys, *(ended(worker, exit_code=0) for worker in range(128))) == [
        "workers 0-127: ended, exit code 0"
    ]


def test_events_of_a_worker_are_reported_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    lost, back = ([event("link", worker, status=how) for worker in (0, 1)] for how in ("lost", "restored"))
    assert printed(capsys, *lost, *back, lost[0], ended(0, exit_code=0)) == [
        "workers 0-1: connection lost",
        "workers 0-1: connection restored",
        "worker 0: connection lost",
        "worker 0: ended, exit code 0",
    ]


async def test_collected_events_are_reported_soon_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "GROUPING_S", 0.0)
    run = Run(
        id="night-20260102-000000-aaaa",
        slice="pod",
        job=JobOptions(("x",)),
        workers=(Worker(0), Worker(1), Worker(2)),
    )
    operator, night = Operator(Settings(home=tmp_path)), RunDirectory.create(tmp_path / "runs", run)
    supervisor = KeeperSupervisor(operator, night, Output())
    with supervisor:
        for worker in (0, 1):
            await supervisor.on_event(ended(worker, exit_code=0))
        seen = ""
        while not seen:
            await asyncio.sleep(0)
            seen = capsys.readouterr().err
        assert seen == "workers 0-1: ended, exit code 0\n"
        await supervisor.on_event(ended(2, exit_code=1))
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "worker 2: ended, exit code 1\n"


def test_following_a_run_ends_with_an_error_when_its_directory_is_removed(tmp_path: Path) -> None:
    directory = RunDirectory.create(
        tmp_path / "runs", Run("goes-20260101-000000-aaaa", "pod", JobOptions(("x",)), (Worker(0),))
    )
    directory.append_event("state", state="running")
    operator = Operator(Settings(tmp_path))

    async def followed() -> None:
        async for _ in operator.runs.watch(directory).everything():
            shutil.rmtree(directory.path, ignore_errors=True)

    for reading in (followed(), operator.reports.read_status(directory)):
        with pytest.raises(UsageError, match="is gone") as caught:
            asyncio.run(asyncio.wait_for(reading, 60))
        assert "tpu-tui attach" in caught.value.remedy


def test_the_last_lines_of_a_failed_worker_are_printed_one_below_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run("night-20261123-100000-abcd", "pod", JobOptions(("true",)), (Worker(0), Worker(1)))
    directory = RunDirectory.create(tmp_path / "runs", run)
    directory.log_path(1).write_text("old\n| Training a | b\n\n| Training c | d\nboom\n")
    cause = explain(1, WorkerOutcome(3), read_last_lines(directory.log_path(1)))
    printer = EventPrinter(directory, Output())
    printer.print(event("failure", 1, cause=cause))
    printer.print(event("state", state="stopping", cause=cause))
    printer.print(event("state", state="failed", cause=cause))
    assert capsys.readouterr().err.splitlines() == [
        f"{run.id} stopping: worker 1 exited with 3; its last lines:",
        "    | Training a | b",
        "    | Training c | d",
        "    boom",
        f"  → tpu-tui logs {run.id} --worker 1 --tail 50",
        f"{run.id} failed: worker 1 exited with 3",
    ]


def test_lines_that_arrive_while_the_last_ones_are_printed_are_printed_too(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("night-20261123-100000-abcd", "pod", JobOptions(("true",)), (Worker(0),))
    directory = RunDirectory.create(shell.home / "runs", run)
    directory.append_event("state", state="running")
    _mirror(directory, "first\nsecond\n")
    write = stdio.write

    def write_slowly(data: bytes) -> None:
        write(data)
        if data == b"second\n":
            _mirror(directory, "third\nfourth")
            directory.append_event("state", state="stopped")

    async def start_no_keeper(_runs: Runs, _directory: RunDirectory) -> bool:
        return False

    monkeypatch.setattr(stdio, "write", write_slowly)
    monkeypatch.setattr(Runs, "ensure_keeper", start_no_keeper)
    command = ("logs", run.id, "--offline", "--follow", "--tail", "1")
    assert shell.call(*command).out == "second\nthird\nfourth\n"
    assert shell.call(*command).out == "fourth\n"


def _mirror(directory: RunDirectory, text: str) -> None:
    """Append text to the mirror of worker 0, as a keeper does."""
    with directory.log_path(0).open("a") as log:
        log.write(text)
    directory.append_arrival(0, directory.log_path(0).stat().st_size, time.time())

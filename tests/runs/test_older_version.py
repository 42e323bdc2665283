"""Runs that version 0.1.0 recorded or started are followed, stopped and reported by this version.

Under `data/version_0_1_0` are a finished run with the figures that 0.1.0 gave for it, a run whose keeper was killed
with the records of its workers, and 0.1.0's worker.sh with what its launch sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.cli.commands import Shell
from tests.runs.pipes import content_of, tagged
from tests.runs.ssh_pod import Pod, over, unattended
from tests.sshd import OpensshWorker, needs_sshd, sshd
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.discovery import discover, import_run
from tui.runs.keeper.start import ensure_keeper
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.ssh.fleet import Fleet

__all__ = ["sshd"]
DATA = Path(__file__).parent / "data" / "version_0_1_0"
WORKER_SCRIPT = (DATA / "worker.sh").read_bytes()
EXPECTED = json.loads((DATA / "expected.json").read_text())
LONG_AGO = 1_700_000_000
"""Unix time of the recorded keepers' last heartbeat: too old to be taken for a keeper alive on another machine."""


def copy_recorded_run(name: str, home: Path) -> Path:
    """Copy a recorded run directory into a home and return its path."""
    run = json.loads((DATA / name / "run.json").read_text())["id"]
    path = home / "runs" / str(run)
    shutil.copytree(DATA / name, path)
    os.utime(path / "keeper", (LONG_AGO, LONG_AGO))
    return path


def ask_for_json(shell: Shell, *words: str) -> Any:
    done = shell.call(*words, "--json")
    assert done.code == 0, done.errors
    return done.document


def find_differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return the names whose values differ, `pace` aside; a later version may add names.

    A pace is a share of the faster one of two middle cores now.
    """
    return {
        name: (found.get(name), value)
        for name, value in expected.items()
        if name != "pace" and without_pace(found.get(name)) != without_pace(value)
    }


def without_pace(value: Any) -> Any:
    """Return a value, without their pace if it is rows."""
    if not isinstance(value, list):
        return value
    return [
        {name: figure for name, figure in row.items() if name != "pace"} if isinstance(row, dict) else row
        for row in value
    ]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home")


def test_status_of_a_finished_run_is_unchanged(shell: Shell) -> None:
    path = copy_recorded_run("finished", shell.home)
    assert find_differences(ask_for_json(shell, "status", str(path), "--offline"), EXPECTED["status"]) == {}


def test_cores_of_a_finished_run_are_unchanged(shell: Shell) -> None:
    rows = ask_for_json(shell, "cores", str(copy_recorded_run("finished", shell.home)), "--offline")
    assert len(rows) == len(EXPECTED["cores"])
    assert [find_differences(*pair) for pair in zip(rows, EXPECTED["cores"], strict=True)] == [{}] * 8


def test_the_figures_in_the_report_of_a_finished_run_are_unchanged(shell: Shell, tmp_path: Path) -> None:
    path = copy_recorded_run("finished", shell.home)
    formats = [word for name in ("json", "txt", "md", "csv", "html") for word in ("--format", name)]
    files = ask_for_json(shell, "report", str(path), "--offline", *formats, "--out", str(tmp_path / "out"))["files"]
    assert all(Path(file).stat().st_size for file in files)
    document = json.loads((tmp_path / "out" / f"{path.name}.json").read_text())
    assert find_differences(document, EXPECTED["report"]) == {}


def test_a_finished_run_is_listed(shell: Shell) -> None:
    path = copy_recorded_run("finished", shell.home)
    (row,) = ask_for_json(shell, "runs", "--offline", "--all")
    assert (row["run"], row["state"], row["exit_codes"]) == (path.name, "succeeded", [0, 0, 0, 0])


@pytest.fixture
def four(sshd: Callable[..., OpensshWorker], tmp_path: Path) -> Iterator[Pod]:
    """Yield a pod of four workers with empty homes; end its runs."""
    pod = Pod([sshd(bare=True) for _ in range(4)], tmp_path / "home")
    yield pod
    pod.end_runs()


@needs_sshd
def test_a_run_whose_keeper_was_killed_is_followed_to_its_end(four: Pod, tmp_path: Path) -> None:
    path = copy_recorded_run("unattended", four.home)
    record = json.loads((path / "run.json").read_text())
    for row, worker in zip(record["workers"], four.workers, strict=True):
        row.update(port=worker.port, host_keys=[worker.host_key], user=worker.user)
    (path / "run.json").write_text(json.dumps(record))
    directory = RunDirectory.open(path)
    four.launched.append(directory)
    logs = [DATA / "unattended_workers" / str(index) / "log" for index in range(4)]
    for index in range(4):
        shutil.copytree(logs[index].parent, four.remote(directory, index))
        shutil.copy(DATA / "worker.sh", four.remote(directory, index))
    before = status_of(directory)
    assert (before.state, before.exit_codes) == (RunState.RUNNING, (None,) * 4)
    assert not before.attended.alive
    assert before.attended.since is not None
    assert all(directory.log_path(index).stat().st_size < logs[index].stat().st_size for index in range(4))

    assert asyncio.run(ensure_keeper(directory, four.access, timeouts=four.timeouts))
    status = over(directory)
    unattended(directory)
    assert (status.state, status.exit_codes, status.cause) == (RunState.SUCCEEDED, (0,) * 4, None)
    assert [directory.log_path(index).read_bytes() for index in range(4)] == [log.read_bytes() for log in logs]
    rows = ask_for_json(Shell(four.home), "cores", str(path), "--offline")
    assert [(row["core"], row["worker"], row["step"], row["state"]) for row in rows] == [
        (0, 0, 69, "ended"),
        (1, 1, 69, "ended"),
        (2, 2, 69, "ended"),
        (3, 3, 23, "ended"),
    ]


LIVE = json.loads((DATA / "live" / "run.json").read_text())


async def start_with_old_script(pod: Pod) -> None:
    """Launch the recorded live run on every worker with the script and the input that 0.1.0 sent."""
    async with Fleet(pod.launch_workers, pod.access) as fleet:
        sessions = [await open_old_launch(fleet, index) for index in range(3)]
        for word, after in ((b"go!", "armed"), (b"ok!", "started")):
            for session in sessions:
                await read_until(session, after)
            for session in sessions:
                session.stdin.write(word)
        for session in sessions:
            await read_until(session, "running")


async def open_old_launch(fleet: Fleet, index: int) -> asyncssh.SSHClientProcess[bytes]:
    job, record = ((DATA / "live" / name).read_bytes() for name in (f"command-{index}", "run.json"))
    script = b"tt_root='~/.tpu-tui' tt_bar=600 tt_lease=3 tt_sync=0 tt_pace=0.10\n" + WORKER_SCRIPT
    words = f"launch {LIVE['id']} {index} 0123456789abcdef {len(job)} {len(record)} 0 1 600"
    session = await fleet.process(
        index, f"exec sh -c 'tt_s=$(head -c {len(script)}); eval \"$tt_s\"' tpu-tui {words}"
    )
    session.stdin.write(script + job + record)
    return session


async def read_until(session: asyncssh.SSHClientProcess[bytes], word: str) -> None:
    """Read a worker's answers up to the one with this word."""
    seen = []
    while line := await asyncio.wait_for(session.stdout.readline(), 60):
        seen.append(line)
        if line.startswith(f"@0123456789abcdef {word}".encode()):
            return
    raise AssertionError(f"no {word!r}, but {seen}")


def is_mirrored(pod: Pod, directory: RunDirectory, lines: int) -> bool:
    paths = [directory.log_path(index) for index in range(3)]
    return all(content_of(path).count(b"\n") == lines for path in paths)


@needs_sshd
def test_a_live_job_of_the_old_script_is_listed_followed_stopped_and_reported(pod: Pod, tmp_path: Path) -> None:
    asyncio.run(start_with_old_script(pod))

    async def adopt_listed_run() -> RunDirectory:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            (run,) = (await discover(fleet, "~/.tpu-tui", slice_name="ssh")).runs
            assert (run.run.id, run.is_alive) == (LIVE["id"], True)
            return import_run(run, pod.home / "runs")

    directory = asyncio.run(adopt_listed_run())
    pod.launched.append(directory)
    assert (pod.remote(directory, 2) / "worker.sh").read_bytes().endswith(WORKER_SCRIPT)
    assert asyncio.run(ensure_keeper(directory, pod.access, timeouts=pod.timeouts))
    wait_until(lambda: is_mirrored(pod, directory, 20))
    assert pod.mirrors_are_exact(directory)
    assert status_of(directory).state is RunState.RUNNING

    for worker in pod.workers:
        (worker.home / "further").touch()
    wait_until(lambda: is_mirrored(pod, directory, 40))
    assert pod.mirrors_are_exact(directory)

    answers = pod.stop(directory)
    assert [(one.worker, one.confirmed, one.exit_code) for one in answers] == [(n, True, 143) for n in range(3)]
    assert [tagged(tag) for tag in pod.tags(directory)] == [[], [], []]
    status = over(directory)
    assert (status.state, status.exit_codes) == (RunState.STOPPED, (143, 143, 143))
    unattended(directory)
    assert pod.mirrors_are_exact(directory)

    shell = Shell(pod.home)
    ask_for_json(
        shell, "report", str(directory.path), "--offline", "--format", "json", "--out", str(tmp_path / "out")
    )
    report = json.loads((tmp_path / "out" / f"{directory.id}.json").read_text())
    assert (report["state"], report["exit_codes"], report["samples"]) == ("stopped", [143] * 3, 120)
    assert [(row["core"], row["worker"], row["step"], row["loss"], row["rate"]) for row in report["cores"]] == [
        (core, core, 39, 21.25, 100.0 + core) for core in range(3)
    ]

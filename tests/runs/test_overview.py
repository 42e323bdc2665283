"""Lists of thousands of old runs: little of each is read, and no change is missed."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.pod.worker import Worker
from tui.runs.launch.phases import PHASES
from tui.runs.record.damaged_record import NoRecordError
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_index import RunListing, resolve
from tui.runs.record.run_status import RunStatus, status_of, summary_status
from tui.settings.home import read_regular

RUN = Run("pod-20261121-101500-0000", "pod", JobOptions(("true",), restarts=1), (Worker(0), Worker(1)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def ended(home: Path, number: int = 0, state: str = "succeeded") -> RunDirectory:
    """Create a finished run as its keeper leaves it."""
    directory = RunDirectory.create(home, replace(RUN, id=f"pod-20261121-101500-{number:04x}"))
    directory.append_event("state", state="preparing", cause=None)
    for phase in PHASES:
        for status in ("started", "done"):
            directory.append_phases([0, 1], phase=phase, status=status, detail="")
    directory.append_event("state", state="running", cause=None)
    for worker in (0, 1):
        directory.append_event("exit", worker=worker, exit_code=worker, signal=None, size=9, cause=None)
    directory.append_event("state", state=state, cause="it is so")
    return directory


def all_of(status: RunStatus) -> dict[str, Any]:
    fields = {name: getattr(status, name) for name in status.__dataclass_fields__ if name != "parts"}
    return {**fields, "workers": status.workers, "exit_codes": status.exit_codes}


EVENTS: list[Callable[[RunDirectory, int], object]] = [
    *(
        lambda directory, worker, phase=phase, status=status: directory.append_event(
            "phase", worker=worker, phase=phase, status=status, detail=phase
        )
        for phase in PHASES
        for status in ("started", "done", "failed")
    ),
    *(
        lambda directory, worker, state=state: directory.append_event("state", state=str(state), cause=f"c{worker}")
        for state in RunState
    ),
    lambda directory, worker: directory.append_event("state", state="preparing", attempt=worker),
    lambda directory, worker: directory.append_event("state", state="running", revived=True),
    lambda directory, worker: directory.append_event("exit", worker=worker, exit_code=3, size=1, recorded=True),
    lambda directory, worker: directory.append_event("stop", worker=worker, confirmed=True, exit_code=4),
    lambda directory, worker: directory.append_event("link", worker=worker, status="lost", detail="x"),
    lambda directory, worker: directory.append_event("stop_requested", by="user", grace=3),
    lambda directory, worker: directory.append_event("failure", worker=worker, exit_code=3, cause="it failed"),
    lambda directory, worker: directory.append_event("note", text="hm", stall="silent", workers=[worker]),
    lambda directory, worker: directory.append_event("told", attempt=worker, ended=[{"worker": worker}]),
]


@pytest.mark.parametrize("seed", range(60))
def test_the_quick_status_equals_the_status_from_every_single_event(home: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory = RunDirectory.create(home, RUN)
    for _ in range(rng.randrange(60)):
        rng.choice(EVENTS)(directory, rng.randrange(2))
        if rng.random() < 0.05:
            with (directory.path / "events.jsonl").open("ab") as events:
                events.write(rng.choice([b"{", b"\n", b"[1],[2]\n", b"null\n", b'{"time": 1}\n', b"\xff\n"]))
    whole = all_of(status_of(RunDirectory.open(directory.path)))
    assert all_of(summary_status(RunDirectory.open(directory.path))) == whole


def test_the_workers_of_an_ended_run_are_read_only_on_demand(home: Path) -> None:
    outline = summary_status(ended(home))
    assert (outline.state, outline.cause) == (RunState.SUCCEEDED, "it is so")
    assert isinstance(outline.parts, RunDirectory)
    assert outline.exit_codes == (0, 1)
    assert outline.workers[1].phase == "confirm"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the paths of files read from now on."""
    seen: list[str] = []

    def read(path: str, *place: int) -> bytes:
        seen.append(path)
        return read_regular(path, *place)

    monkeypatch.setattr("tui.runs.record.run_directory.read_regular", read)
    return seen


def test_runs_that_did_not_change_are_not_read_again(home: Path, read: list[str]) -> None:
    for number in range(5):
        ended(home, number)
    overview = RunListing(home)
    first = overview.read_statuses()
    assert len(read) == 10
    read.clear()
    second = overview.read_statuses()
    assert read == []
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_only_runs_written_since_the_last_listing_are_read_again(home: Path, read: list[str]) -> None:
    changed, *_ = (ended(home, number, state="lost") for number in range(5))
    overview = RunListing(home)
    overview.read_statuses()
    read.clear()
    changed.append_event("state", state="running", revived=True)
    states = {status.run.id: status.state for status in overview.read_statuses()}
    assert states.pop(changed.id) is RunState.RUNNING
    assert set(states.values()) == {RunState.LOST}
    assert {Path(path).parent for path in read} == {changed.path}


def test_new_deleted_and_updated_runs_are_noticed(home: Path) -> None:
    first, second = ended(home, 1), ended(home, 2)
    overview = RunListing(home)
    assert [status.run.id for status in overview.read_statuses()] == [second.id, first.id]
    second.path.rename(home / ".deleted")
    third = ended(home, 3)
    first.update_run(replace(first.run, code_hash="abc"))
    assert [status.run.id for status in overview.read_statuses()] == [third.id, first.id]
    assert overview.read_statuses()[1].run.code_hash == "abc"
    assert overview.directory(first.id).run.code_hash == "abc"


def test_each_of_two_threads_lists_every_run(home: Path) -> None:
    ids = {ended(home, number).id for number in range(20)}
    listing, interval = RunListing(home), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as threads:
            listed = [*threads.map(lambda _: {status.run.id for status in listing.read_statuses()}, range(20))]
    finally:
        sys.setswitchinterval(interval)
    assert listed == [ids] * 20


def test_a_keeper_of_an_ended_run_is_noticed_when_it_starts_and_when_it_ends(home: Path) -> None:
    directory = ended(home)
    overview = RunListing(home)
    assert not overview.read_statuses()[0].attended.alive
    claim = DirectoryLock.take(directory)
    assert claim is not None
    claim.sign()
    assert overview.read_statuses()[0].attended.alive
    claim.close()
    assert not overview.read_statuses()[0].attended.alive
    claim_file = directory.path / "keeper"
    assert socket.gethostname() in claim_file.read_text()


def test_a_record_that_cannot_be_read_is_reported_by_every_listing(home: Path) -> None:
    directory = ended(home)
    overview = RunListing(home)
    overview.read_statuses()
    os.truncate(directory.path / "run.json", 5)
    for _ in range(2):
        problems: list[NoRecordError] = []
        assert overview.read_statuses(problems) == []
        assert len(problems) == 1


@contextlib.contextmanager
def as_nobody(home: Path) -> Iterator[None]:
    """Act as the user `nobody`, who may enter the home and, unlike root, is bound by file modes."""
    above = [home, *home.parents]
    modes = {path: path.stat().st_mode for path in above if path.owner() == home.owner()}
    user = os.geteuid()
    for path in modes:
        path.chmod(0o755)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.mark.parametrize("closed", ["", "run.json", "events.jsonl"])
def test_a_run_that_only_its_owner_may_read_is_reported_and_hides_no_other(home: Path, closed: str) -> None:
    private, *readable = (ended(home, number) for number in range(3))
    (home / "lost+found").mkdir()
    for directory in readable:
        directory.path.chmod(0o755)
        for path in directory.path.iterdir():
            path.chmod(0o644)
    for path in (private.path, *private.path.iterdir(), home / "lost+found"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (private.path / closed, home / "lost+found"):
        path.chmod(0)
    problems: list[NoRecordError] = []
    with as_nobody(home):
        statuses = RunListing(home).read_statuses(problems)
        with pytest.raises(NoRecordError if closed != "events.jsonl" else PermissionError):
            status_of(resolve(home, private.id))
    assert [status.run.id for status in statuses] == [directory.id for directory in reversed(readable)]
    assert [problem.id for problem in problems] == [private.id]
    assert "Permission denied" in problems[0].why


def test_a_run_whose_directory_was_renamed_is_listed_and_found_again(home: Path) -> None:
    directory = ended(home)
    directory.path.rename(home / "kept")
    overview = RunListing(home)
    [status] = overview.read_statuses()
    assert overview.directory(status.run.id).path == home / "kept"

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tui.errors import UsageError
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.read.arrivals_reader import ArrivalsReader
from tui.runs.record.directory_lock import DirectoryLock, living_keeper
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.py310

RUN = Run(
    id="resnet-20261121-101500-00aa",
    slice="pod",
    job=JobOptions(("python", "train.py", "--name=a b"), env={"EPOCHS": "3", "WANDB_API_KEY": "hush"}),
    workers=(Worker(0, internal_ip="10.0.0.1", host_keys=("ssh-ed25519 AAAA",)), Worker(1, internal_ip="10.0.0.2")),
    created="2026-11-21T10:15:00+00:00",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_run_is_read_back_as_it_was_written_but_for_secret_values(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    found = RunDirectory.open(made.path)
    assert found.run == RUN.without_secrets()
    assert found.run.job.env["EPOCHS"] == "3"
    written = (made.path / "run.json").read_text()
    assert "hush" not in written
    # People read the file, too: each worker has a line of its own.
    assert [len([line for line in written.splitlines() if ip in line]) for ip in ("10.0.0.1", "10.0.0.2")] == [1, 1]
    assert len(written.splitlines()) > 10


def test_an_argument_that_is_not_unicode_is_read_back_exactly(home: Path) -> None:
    run = replace(RUN, job=JobOptions(("train", "\udcff", "é"), env={"EMPTY": ""}), workers=(Worker(0),))
    made = RunDirectory.create(home, run)
    assert RunDirectory.open(made.path).run == run


def test_the_directory_is_private(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    made.append_event("note", text="x")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.path.iterdir()} == {0o600}


def test_a_run_directory_is_created_only_once(home: Path) -> None:
    RunDirectory.create(home, RUN)
    with pytest.raises(UsageError, match="exists"):
        RunDirectory.create(home, RUN)


def test_reading_events_continues_where_the_last_read_ended(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    made.append_event("note", worker=1, text="first ünï\udce9")
    events, offset = made.events()
    assert [(event.kind, event.worker) for event in events] == [("note", 1)]
    made.append_event("state", state="running", cause=None)
    events, end = made.events(offset)
    assert [event.get("state") for event in events] == ["running"]
    assert made.events(end) == ([], end)


def test_a_line_that_a_killed_writer_left_unfinished_spoils_only_itself(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    made.append_event("note", text="before")
    with (made.path / "events.jsonl").open("ab") as handle:
        handle.write(b'{"time": "2026-11-21T10:1')
    assert [event.get("text") for event in made.events()[0]] == ["before"]
    made.append_event("note", text="after")
    assert [event.get("text") for event in made.events()[0]] == ["before", "after"]


def test_an_incomplete_last_arrival_is_left_for_the_next_read(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    made.append_arrival(0, 10, 1.5)
    with (made.path / "arrivals").open("ab") as handle:
        handle.write(b"1 2")
    arrivals, offset = made.arrivals()
    assert [(arrival.worker, arrival.end, arrival.time) for arrival in arrivals] == [(0, 10, 1.5)]
    with (made.path / "arrivals").open("ab") as handle:
        handle.write(b"0 2.000000\n")
    assert [(arrival.worker, arrival.end) for arrival in made.arrivals(offset)[0]] == [(1, 20)]


def test_an_arrival_whose_time_was_cut_off_is_ignored(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    for torn in (b"0 10 17638", b"0 10 1763888888", b"0 10 1763888888.25"):
        with (made.path / "arrivals").open("ab") as handle:
            handle.write(torn)
        made.append_arrival(1, 20, 1763888889.5)
    assert {(arrival.worker, arrival.time) for arrival in made.arrivals()[0]} == {(1, 1763888889.5)}
    assert {batch.time for batch in ArrivalsReader(made).read()} == {1763888889.5}


def test_a_run_without_a_keeper_is_unattended(home: Path) -> None:
    assert RunDirectory.create(home, RUN).keeper_status().alive is False


def test_the_holder_of_the_lock_is_the_keeper_and_no_other_process_can_take_it(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    claim = DirectoryLock.take(made)
    assert claim is not None
    claim.sign()
    assert made.keeper_status().alive
    assert made.keeper_status().pid == os.getpid()
    assert DirectoryLock.take(made) is None
    claim.close()
    after = made.keeper_status()
    assert not after.alive
    assert after.since == pytest.approx(time.time(), abs=60)


def test_where_files_cannot_be_locked_no_keeper_is_assumed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _mode: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    made = RunDirectory.create(home, RUN)
    (made.path / "keeper").touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert not made.keeper_status().alive
    with pytest.raises(OSError, match="lock"):
        DirectoryLock.take(made)


def test_a_keeper_on_another_machine_is_judged_by_its_heartbeat(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    keeper = made.path / "keeper"
    keeper.write_text("12 345 some-other-host\n")
    assert made.keeper_status().alive
    os.utime(keeper, (time.time() - 3600, time.time() - 3600))
    assert not made.keeper_status().alive


def test_a_dead_keeper_of_this_machine_is_not_alive_however_recent_its_file(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    (made.path / "keeper").write_text(f"12 345 {socket.gethostname()}\n")
    assert not made.keeper_status().alive


def test_only_a_live_process_that_signed_the_lock_is_a_keeper(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    claim = DirectoryLock.take(made)
    assert claim is not None
    assert DirectoryLock.take(made, patience=0.0) is None
    assert living_keeper(made) is None
    claim.sign()
    assert living_keeper(made) == os.getpid()
    claim.close()
    (made.path / "keeper").write_text(f"{os.getpid()} 1 {socket.gethostname()}\n")
    assert living_keeper(made) is None


def test_where_start_times_are_unknown_a_live_pid_counts_as_the_keeper(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RunDirectory.create(home, RUN)
    with subprocess.Popen(["true"]) as ended:
        pass
    for pid, keeper in ((os.getpid(), os.getpid()), (ended.pid, None)):
        (made.path / "keeper").write_text(f"{pid} 1 {socket.gethostname()}\n")
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(sys, "platform", "darwin")
            assert living_keeper(made) == keeper


def test_a_lock_on_a_directory_that_was_removed_or_moved_is_no_longer_valid(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    claim = DirectoryLock.take(made)
    assert claim is not None
    assert claim.is_in_place()
    made.path.rename(home / "elsewhere")
    assert not claim.is_in_place()
    RunDirectory.create(home, RUN)
    (made.path / "keeper").touch()
    assert not claim.is_in_place()
    claim.close()


def test_a_reader_with_a_shared_lock_does_not_keep_a_keeper_from_starting(home: Path) -> None:
    made = RunDirectory.create(home, RUN)
    (made.path / "keeper").touch()
    reader = os.open(made.path / "keeper", os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    pid = os.fork()
    if pid == 0:
        time.sleep(0.2)
        os._exit(0)
    os.close(reader)
    claim = DirectoryLock.take(made)
    os.waitpid(pid, 0)
    assert claim is not None

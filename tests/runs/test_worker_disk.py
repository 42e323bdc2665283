"""A worker whose disk is full: the exit of the job is recorded at once, and no output that fits is lost."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.runs.disks import NoDiskError, fill, mounted
from tests.runs.pipes import PipeWorker, a_run, ended, needs_linux, tag_of, tagged
from tests.waiting import wait_until
from tui.pod.run import Run
from tui.runs.worker.calls import parse_outcome

pytestmark = [
    needs_linux,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root"),
    pytest.mark.timing,
]
DISKS = {"ext4": 120, "tmpfs": 80, "ext2": 80}
"""Megabytes of each kind of disk; on ext2 no space can be reserved ahead."""
TOO_MUCH = 60_000, 500
"""Writes, and lines of each, that together are more than any disk takes."""
FILLING = f"""
import os, sys, time
disk, writes, lines, code = sys.argv[1], *map(int, sys.argv[2:])
print("one", flush=True)
time.sleep(0.3)
print("two", flush=True)
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.runs.disks import fill
fill(Path(disk))
for number in range(writes): os.write(1, b"%d\\n" % number * lines)
os._exit(code)
"""


def written(writes: int, lines: int = 1) -> bytes:
    return b"one\ntwo\n" + b"".join(b"%d\n" % number * lines for number in range(writes))


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, worker: PipeWorker, tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk and move the worker's home to it."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(mounted(request.param, tmp_path, DISKS[request.param]))
        except NoDiskError as error:
            pytest.skip(str(error))
        worker.home = made / "home"
        worker.home.mkdir()
        yield made
        (made / "ballast").unlink(missing_ok=True)
        worker.close()


def filling(disk: Path, writes: int, lines: int = 1, code: int = 7) -> Run:
    return a_run(sys.executable, "-c", FILLING, str(disk), str(writes), str(lines), str(code))


@pytest.mark.parametrize("writes", [3, 100_000])
def test_a_job_that_fills_the_disk_and_ends_has_its_exit_code_recorded_at_once(
    worker: PipeWorker, disk: Path, writes: int
) -> None:
    run = filling(disk, writes)
    worker.launch(run).through()
    status = ended(worker, run)
    assert (status["exit"], status["signal"]) == ("7", "")
    log = (worker.directory(run) / "log").read_bytes()
    assert int(status["size"]) == len(log)
    if disk.name != "ext2-disk":
        assert log == written(writes)
    answers = worker.ask("stop", run, 10, 0)[0]
    assert (answers[0].word, parse_outcome(answers[0]).exit_code) == ("stopped", 7)


@pytest.mark.bash
@pytest.mark.parametrize("disk", ["ext4", "tmpfs"], indirect=True)
def test_a_job_held_in_its_write_is_stopped_and_its_output_is_not_lost(worker: PipeWorker, disk: Path) -> None:
    run = filling(disk, *TOO_MUCH)
    worker.launch(run).through()
    directory = worker.directory(run)
    wait_until((directory / "full").exists)
    answers = worker.ask("stop", run, 10, 0)[0]
    assert (answers[0].word, parse_outcome(answers[0]).signal) == ("stopped", "TERM"), answers
    log = (directory / "log").read_bytes()
    assert int(ended(worker, run)["size"]) == len(log) > 31 << 20
    assert written(*TOO_MUCH).startswith(log)
    assert not tagged(tag_of(worker, run))


def bytes_in_pipe(pid: int) -> int:
    """Return how many bytes of a process's output are still unread in its pipe."""
    with open(f"/proc/{pid}/fd/1", "rb", buffering=0, opener=lambda path, _: os.open(path, os.O_NONBLOCK)) as pipe:
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("disk", ["ext4", "tmpfs"], indirect=True)
def test_output_that_a_killed_job_left_in_the_pipe_of_a_full_disk_is_not_lost(worker: PipeWorker, disk: Path) -> None:
    run = filling(disk, *TOO_MUCH)
    pid = int(worker.launch(run).through())
    wait_until((worker.directory(run) / "full").exists)
    wait_until(lambda: bytes_in_pipe(pid) > 0)
    before, in_pipe = (worker.directory(run) / "log").stat().st_size, bytes_in_pipe(pid)
    os.kill(pid, 9)
    status = ended(worker, run)
    assert (status["exit"], status["signal"]) == ("137", "KILL")
    log = (worker.directory(run) / "log").read_bytes()
    assert len(log) >= before + in_pipe > before > 31 << 20
    assert written(*TOO_MUCH).startswith(log)


@pytest.mark.parametrize("disk", ["ext4", "tmpfs", "ext2"], indirect=True)
def test_a_job_goes_on_when_there_is_room_again(worker: PipeWorker, disk: Path) -> None:
    run = filling(disk, 18_000, 500, 0)
    worker.launch(run).through()
    wait_until((worker.directory(run) / "full").exists)
    (disk / "ballast").unlink()
    assert ended(worker, run)["exit"] == "0"
    log = (worker.directory(run) / "log").read_bytes()
    assert log.endswith(b"\n17999\n")
    if disk.name != "ext2-disk":
        assert log == written(18_000, 500)


def test_a_launch_on_a_disk_without_room_is_refused(worker: PipeWorker, disk: Path) -> None:
    fill(disk)
    launch = worker.launch(a_run("true"))
    answer = launch.answer()
    assert answer.word == "refused"
    assert answer.text.startswith(("full", "directory")), answer

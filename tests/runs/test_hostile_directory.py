"""Run directories that were made to harm their reader: files that never end, and links to the user's own files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runs.hostile import RUN
from tui.errors import TpuTuiError
from tui.operator import Operator
from tui.reports.worker_logs import write_worker_logs
from tui.runs.failure_rules import read_last_lines
from tui.runs.read.latest_figures import FiguresCache
from tui.runs.read.line_reader import LineReader
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.keeper_file import KEEPER_FILE, read_signature
from tui.runs.record.log_mirror import Mirror, archive_attempt_logs
from tui.runs.record.run_directory import (
    ARRIVALS_FILE,
    EVENTS_FILE,
    KEEPER_LOG,
    RESERVE_FILE,
    RunDirectory,
    iterate_log,
)
from tui.runs.record.run_status import status_of
from tui.settings import Settings
from tui.settings.home import MOST_READ_BYTES, open_regular

pytestmark = pytest.mark.py310

FILES = ("run.json", EVENTS_FILE, ARRIVALS_FILE, KEEPER_FILE, "worker-000.log")
LOG = b"| Training Device=xla:0/0 Epoch=1 Step=1 Loss=6.5 Rate=25.4 GlobalRate=25.4 Time=02:38:57\n"
PRIVATE = b"MY-PRIVATE-KEY\n"


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path / "home" / "runs", RUN)
    made.append_event("state", state="running", cause=None)
    made.log_path(0).write_bytes(LOG)
    made.append_arrival(0, len(LOG), 1764e6)
    (made.path / KEEPER_FILE).write_bytes(b"1 2 vm 3.000\n")
    return made


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a file of the user that is in no run directory."""
    path = tmp_path / "private"
    path.write_bytes(PRIVATE)
    return path


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    """Fail instead of waiting for a file that never ends."""

    def give_up(*_: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def replaced(path: Path, kind: str, private: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to({"zero": "/dev/zero", "link": private}[kind])


READS: dict[str, Callable[[RunDirectory, Path], object]] = {
    "open": lambda directory, _: RunDirectory.open(directory.path),
    "status": lambda directory, _: status_of(RunDirectory(directory.path, RUN)),
    "events": lambda directory, _: (directory.events_of_run(), directory.events()),
    "arrivals": lambda directory, _: (directory.arrivals(), directory.last_arrival(), directory.archived_logs()),
    "keeper": lambda directory, _: (directory.keeper_status(), read_signature(directory.path / KEEPER_FILE)),
    "figures": lambda directory, _: FiguresCache().get(directory),
    "cores": lambda directory, _: RunReader(directory).poll(),
    "lines": lambda directory, _: list(LineReader(directory).poll(final=True)),
    "log": lambda directory, _: list(iterate_log(directory.log_path(0))),
    "last lines": lambda directory, _: read_last_lines(directory.log_path(0)),
    "logs of a report": lambda directory, out: [path.read_bytes() for path in write_worker_logs(directory, out)],
    "a list": lambda directory, out: Operator(Settings(home=out.parent / "home")).runs.list_statuses(problems=[]),
}


def outcome(read: Callable[[RunDirectory, Path], object], directory: RunDirectory, out: Path) -> tuple[str, str]:
    """Return what is read, and the error that prevents it."""
    try:
        return repr(read(directory, out)), ""
    except (OSError, TpuTuiError) as error:
        return "", str(error)


@pytest.mark.parametrize("kind", ["fifo", "zero", "link"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_not_a_regular_file_is_neither_waited_for_nor_read(
    directory: RunDirectory, private: Path, tmp_path: Path, name: str, kind: str
) -> None:
    replaced(directory.path / name, kind, private)
    for read in READS.values():
        seen, problem = outcome(read, directory, tmp_path / "out")
        assert PRIVATE.decode().strip() not in seen
        assert not problem or (name in problem and "it is not a regular file" in problem)


WRITES: dict[str, Callable[[RunDirectory], object]] = {
    EVENTS_FILE: lambda directory: directory.append_event("note", text="x"),
    ARRIVALS_FILE: lambda directory: directory.append_arrival(0, 1, 1.0),
    KEEPER_FILE: DirectoryLock.take,
    RESERVE_FILE: lambda directory: directory.reserve_space(),
    "worker-000.log": lambda directory: archive_attempt_logs(directory, 1),
}


@pytest.mark.parametrize("kind", ["fifo", "link", "nowhere"])
@pytest.mark.parametrize("name", list(WRITES))
def test_what_is_not_a_regular_file_is_not_written(
    directory: RunDirectory, private: Path, name: str, kind: str
) -> None:
    nowhere = private.with_name("nowhere")
    replaced(directory.path / name, kind.replace("nowhere", "link"), nowhere if kind == "nowhere" else private)
    with pytest.raises(OSError, match="regular"):
        WRITES[name](RunDirectory(directory.path, RUN))
    assert private.read_bytes() == PRIVATE
    assert not nowhere.exists()


async def test_a_mirror_that_is_a_link_is_not_written(directory: RunDirectory, private: Path) -> None:
    replaced(directory.log_path(0), "link", private)
    with pytest.raises(OSError, match="regular"):
        await Mirror(directory, 0).open()
    assert private.read_bytes() == PRIVATE


@pytest.mark.parametrize("name", ["run.json", EVENTS_FILE])
def test_a_file_that_is_too_large_is_not_read(directory: RunDirectory, name: str) -> None:
    os.truncate(directory.path / name, MOST_READ_BYTES + 4096)
    with pytest.raises((OSError, TpuTuiError)) as caught:
        status_of(RunDirectory.open(directory.path))
    assert "it has more than 256 MiB" in str(caught.value)


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_regular(tmp_path / KEEPER_LOG, os.O_CREAT | os.O_WRONLY))
    finally:
        os.umask(before)
    assert (tmp_path / KEEPER_LOG).stat().st_mode & 0o777 == 0o600

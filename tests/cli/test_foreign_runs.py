"""A run's directory that lies elsewhere, or that others can change, is data to read: nothing is done for its sake."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands import Shell
from tests.logs.shapes import training
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory

ID = "gift-20260102-000000-aaaa"
MACHINE = "127.91.0.1"
"""An address that no other test uses: on 127.0.0.1, a test beside may try the port that it has just freed."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Return a socket that stands for the machine named in the record."""
    with closing(socket.create_server((MACHINE, 0))) as server:
        server.setblocking(False)
        yield server


@pytest.fixture
def made(tmp_path: Path, listener: socket.socket) -> Path:
    """Return a directory of a live run, made for harm, that no home holds yet."""
    port = listener.getsockname()[1]
    worker = Worker(0, internal_ip=MACHINE, port=port, host_keys=("ssh-ed25519 AAAA",))
    job = JobOptions(("x",), on_end=(f"command:touch {tmp_path}/done",), restarts=3)
    directory = RunDirectory.create(tmp_path / "given", Run(id=ID, slice="pod", job=job, workers=(worker,)))
    directory.append_event("state", state="running", cause=None)
    directory.log_path(0).write_text(training(core=0, epoch=2, step=30, loss="1.50000") + "\n")
    directory.append_arrival(0, directory.log_path(0).stat().st_size, 1764e6)
    return directory.path


def elsewhere(made: Path, _home: Path) -> str:
    return str(made)


def of_another_user(made: Path, home: Path) -> str:
    if os.getuid():
        pytest.skip("only root can give a file away")
    moved = in_the_home(made, home)
    os.chown(moved, 65534, 65534)
    return ID


def writable_by_all(made: Path, home: Path) -> str:
    in_the_home(made, home).chmod(0o777)
    return ID


def with_a_record_writable_by_all(made: Path, home: Path) -> str:
    (in_the_home(made, home) / "run.json").chmod(0o666)
    return ID


def in_the_home(made: Path, home: Path) -> Path:
    (home / "runs").mkdir(parents=True, mode=0o700)
    return Path(shutil.move(made, home / "runs" / ID))


FOREIGN = [elsewhere, of_another_user, writable_by_all, with_a_record_writable_by_all]


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in path.iterdir()}


def was_contacted(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("given", FOREIGN)
@pytest.mark.parametrize(
    "words",
    [["attach"], ["stop"], ["logs", "-f"], ["runs", "delete", "--yes"], ["runs", "delete", "--yes", "--on", "here"]],
)
def test_what_would_act_is_refused_in_one_sentence(
    made: Path, tmp_path: Path, listener: socket.socket, given: object, words: list[str]
) -> None:
    shell = Shell(tmp_path / "home")
    ref = given(made, shell.home)  # type: ignore[operator]
    place = next(path for path in (made, shell.home / "runs" / ID) if path.exists())
    before = contents(place)
    answer = shell.call(*words[:2], ref, *words[2:])
    assert (answer.code, answer.out) == (2, "")
    assert "is only read: " in answer.errors
    assert "\n  → " in answer.errors
    assert contents(place) == before
    assert not was_contacted(listener)
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("given", FOREIGN)
@pytest.mark.parametrize(
    "words",
    [["status"], ["cores"], ["logs"], ["report", "--format", "md"], ["report", "--logs"], ["compare", "OTHER"]],
)
def test_what_only_reads_says_so_once_and_asks_no_machine(
    made: Path,
    tmp_path: Path,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    given: object,
    words: list[str],
) -> None:
    shell = Shell(tmp_path / "home")
    ref = given(made, shell.home)  # type: ignore[operator]
    place = next(path for path in (made, shell.home / "runs" / ID) if path.exists())
    other = tmp_path / "other.log"
    other.write_text(training(core=0, epoch=2, step=30, loss="1.50000") + "\n")
    before = contents(place)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    answer = shell.call(words[0], ref, *(word.replace("OTHER", str(other)) for word in words[1:]))
    assert answer.code == 0
    assert answer.errors.count("is only read: ") == 1
    assert answer.out
    assert contents(place) == before
    assert not was_contacted(listener)


def test_a_list_of_runs_and_a_deletion_by_age_pass_over_a_run_that_others_can_change(
    made: Path, tmp_path: Path, listener: socket.socket
) -> None:
    shell = Shell(tmp_path / "home")
    writable_by_all(made, shell.home)
    assert ID in shell.call("runs", "--offline").out
    answer = shell.call("runs", "delete", "--older-than", "1d", "--yes")
    assert "Traceback" not in answer.errors
    assert (shell.home / "runs" / ID).exists()
    assert not was_contacted(listener)

"""Tests of stopping the making of shards: it ends at once at any moment, and the same command resumes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

webdataset = pytest.importorskip("webdataset", reason="the trainer's packages are not installed")

from trainer.errors import INTERRUPTED
from trainer.shards.manifest import MANIFEST, UNFINISHED

pytestmark = pytest.mark.timing

ROOT = Path(__file__).parents[2]
DEADLINE = 60
SET = ["shapes", "--train", "40", "--val", "4", "--size", "16", "--samples-per-shard", "4", "--workers", "2"]
STOPPED = "Stopped. The same command resumes where it stopped."

STUCK = """
import sys, time
from trainer.shards import command, sources

def stuck(*given):  # each process does some shards, and then none any more
    source, made = drawn(*given), []
    def slow(index):
        made.append(index)
        time.sleep(0.02 if len(made) <= 10 else 1000)
        return source.splits["train"][1](index)
    splits = {**source.splits, "train": (source.splits["train"][0], slow)}
    return sources.ImageSource(source.name, source.classes, source.image_size, splits, source.identity)

drawn, sources.shapes = sources.shapes, stuck
sys.exit(command.main(sys.argv[1:]))
"""

STOPPED_WHILE_FORKING = """
import os, signal, sys
from trainer.shards import command

os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
sys.exit(command.main(sys.argv[1:]))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts Python in its own session, as a terminal does; all are killed later."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        )
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def await_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    overdue = threading.Timer(DEADLINE, process.kill)
    overdue.start()
    try:
        for line in process.stderr:
            if text in line:
                return
    finally:
        overdue.cancel()
    raise AssertionError(f"{text!r} was not printed")


def test_ctrl_c_during_the_imports_ends_the_command_without_output(start: Start, tmp_path: Path) -> None:
    process = start("-X", "importtime", "-m", "trainer.shards", *SET, "--out", str(tmp_path / "out"))
    await_line(process, "numpy")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    err = process.stderr.read()  # `communicate` would lose what has been read ahead
    assert process.wait(timeout=DEADLINE) == -signal.SIGINT
    assert [line for line in err.splitlines() if not line.startswith("import time:")] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_waits_for_no_shard_and_leaves_nothing_half_written(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    process = start("-c", STUCK, *SET, "--out", str(out))
    await_line(process, "(4 of 11)")
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err.splitlines()) == (code, [STOPPED])
    left = sorted(path.name for path in out.iterdir())
    assert left[0] == UNFINISHED
    assert all(name.endswith(".tar") for name in left[1:])
    again = start("-m", "trainer.shards", *SET, "--out", str(out))
    _, err = again.communicate(timeout=DEADLINE)
    assert again.returncode == 0
    assert err.splitlines()[0] == "Resuming: 4 of 11 shards are complete"


def test_ctrl_c_works_while_the_processes_are_being_forked(start: Start, tmp_path: Path) -> None:
    process = start("-c", STOPPED_WHILE_FORKING, *SET, "--overwrite", "--out", str(tmp_path / "out"))
    _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err.splitlines()) == (
        INTERRUPTED,
        ["Stopped. The same command without --overwrite resumes where it stopped."],
    )
    assert not (tmp_path / "out" / MANIFEST).exists()

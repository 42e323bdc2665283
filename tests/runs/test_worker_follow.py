"""What the worker script sends of a log and tells of a run, over pipes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, ended, needs_linux, until
from tui.runs.remote import MOST_LOOKS, call, pace_of

pytestmark = needs_linux


def test_a_follower_resumes_at_any_byte_and_tells_the_end(worker: PipeWorker) -> None:
    junk = worker.root / "junk"
    junk.write_bytes(os.urandom(300_000) + b"\0\r\n\x1b]0;x\x07no newline at the end")
    run = a_run("cat", str(junk))
    worker.launch(run).through()
    size = int(ended(worker, run)["size"])
    assert size == junk.stat().st_size
    for offset in (0, 1, 299_999, size):
        heard, out, _ = worker.ask("follow", run, offset, 600, 0)
        assert out.partition(b"\n")[2] == junk.read_bytes()[offset:]
        assert [answer.word for answer in heard] == ["log", "end"]
        assert heard[1].fields["size"] == str(size)


def test_a_follower_sees_a_live_run_to_its_last_byte(worker: PipeWorker) -> None:
    lines = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; sleep 0.4; printf end; exit 5"
    run = a_run("sh", "-c", lines)
    worker.launch(run).through()
    heard, out, _ = worker.ask("follow", run, 0, 600, 0)
    assert out.partition(b"\n")[2] == b"".join(b"line %d\n" % i for i in range(1, 301)) + b"end"
    assert heard[-1].word == "end"
    assert heard[-1].fields["exit"] == "5"


def test_a_follower_beyond_the_end_is_refused_instead_of_sent_everything_again(worker: PipeWorker) -> None:
    run = a_run("echo", "short")
    worker.launch(run).through()
    ended(worker, run)
    heard, out, _ = worker.ask("follow", run, 100, 600, 0)
    assert [answer.word for answer in heard] == ["short", "end"]
    assert b"\nshort" not in out


def test_a_follower_whose_time_is_up_says_nothing_of_an_end(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    heard, _, _ = worker.ask("follow", run, 0, 1, 0)
    assert [answer.word for answer in heard] == ["log", "room"]
    worker.ask("stop", run, 10, 0)


@pytest.mark.parametrize(("workers", "pace"), [(1, 0.1), (32, 0.1), (64, 0.2), (128, 0.4), (2048, 1.0)])
def test_workers_of_a_large_pod_look_at_their_logs_less_often(worker: PipeWorker, workers: int, pace: float) -> None:
    assert pace_of(workers) == pytest.approx(pace)
    assert workers / pace_of(workers) <= max(MOST_LOOKS, workers)
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    worker.open(call("follow", run.id, 0, 0, 600, 0, run_root=run.run_root, pace=pace_of(workers)))
    until(lambda: f"{pace:.2f}" in _pauses(worker.directory(run)))
    worker.ask("stop", run, 10, 0)


def _pauses(directory: Path) -> list[str]:
    """What every `tail` in a directory was told to wait between two looks."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0] == b"tail" and (process / "cwd").resolve() == directory.resolve():
                found.append(words[words.index(b"-s") + 1].decode())
    return found


def test_status_and_list_tell_what_runs_here(worker: PipeWorker) -> None:
    done, going = a_run("sh", "-c", "exit 2"), a_run("sleep", "1000")
    worker.launch(done).through()
    ended(worker, done)
    worker.launch(going).through()
    heard, _, _ = worker.ask("list", going)
    rows = {answer.text.split()[0]: answer.text.split()[2] for answer in heard if answer.word == "run"}
    assert rows == {done.id: "ended", going.id: "running"}
    assert heard[-1].word == "listed"
    assert worker.ask("status", done)[0][0].fields["exit"] == "2"
    assert worker.ask("status", a_run("true"))[0][0].word == "norun"
    assert b"\n{}" in worker.ask("show", done)[1]
    worker.ask("stop", going, 10, 0)

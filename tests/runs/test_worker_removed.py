"""A job that removes its own log or run directory: it is still listed, followed to its last byte and stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, content_of, ended, needs_linux, tag_of, tagged
from tests.waiting import wait_until
from tui.pod.run import Run
from tui.runs.worker.calls import build_call, parse_outcome
from tui.ssh.exec.script_protocol import Answer, parse_answers

pytestmark = [needs_linux, pytest.mark.timing]
HERE = '"$HOME/.tpu-tui/runs/$TPU_TUI_RUN/0"'
WAIT = 'while [ ! -e "$HOME/end" ]; do sleep 0.05; done'
BEGIN = 'while [ ! -e "$HOME/take" ]; do sleep 0.05; done'
TAKEN = {
    "removed": "rm log",
    "renamed": "mv log log.1",
    "replaced by a directory": "rm log; mkdir log; touch log/inside",
    "replaced by a symlink": "rm log; ln -s /dev/null log",
    "replaced by a broken symlink": "rm log; ln -s nowhere log",
    "replaced by a fifo": "rm log; mkfifo log",
    "replaced by another file": "rm log; echo another >log",
    "every link removed": "rm log*",
    "without permissions": "chmod 000 log",
    "every file removed": "rm -f *",
    "directory removed": 'rm -rf "$HERE"',
    "directory renamed": 'mv "$HERE" "$HERE.old"',
    "runs removed": 'rm -rf "$HOME/.tpu-tui/runs"',
    "all removed": 'rm -rf "$HOME/.tpu-tui"',
    "directory without permissions": 'chmod 000 "$HERE"',
}
ELSEWHERE = ("directory removed", "directory renamed", "runs removed", "all removed", "every file removed")


def job(taken: str, end: str = "exit 5") -> str:
    return f"HERE={HERE}; cd {HERE}; echo one; {BEGIN}; {TAKEN[taken]}; cd /; echo two; {WAIT}; echo three; {end}"


def follow(worker: PipeWorker, run: Run, offset: int, seconds: int) -> tuple[list[Answer], bytes]:
    """Run one session of a follower; return its answers and the log's bytes."""
    replies, out, _ = worker.ask("follow", run, offset, seconds, 0)
    return replies, out.partition(b"\n")[2]


def running(worker: PipeWorker, run: Run, taken: str) -> None:
    """Launch a run, and wait until its job has removed what `taken` names."""
    worker.launch(run).through()
    (worker.home / "take").touch()
    wait_until(lambda: b"two" in follow(worker, run, 0, 1)[1])
    if taken == "directory removed":
        shutil.rmtree(worker.directory(run), ignore_errors=True)  # as a cleaner that runs repeatedly does


@pytest.mark.parametrize("taken", TAKEN)
def test_a_log_taken_away_by_its_job_is_followed_to_its_last_byte(worker: PipeWorker, taken: str) -> None:
    run = a_run("sh", "-c", job(taken))
    launch = worker.launch(run)
    launch.through()
    made = build_call("follow", run.id, 0, 0, 600, 0, run_root=run.run_root)
    before = worker.open(made)
    (worker.home / "take").touch()
    wait_until(lambda: follow(worker, run, 0, 1)[1] == b"one\ntwo\n")
    assert follow(worker, run, 4, 1)[1] == b"two\n"
    (worker.home / "end").touch()
    status = ended(worker, run)
    assert (status["exit"], status["size"]) == ("5", "14")
    assert (worker.directory(run) / "log").read_bytes() == b"one\ntwo\nthree\n"
    out, err = before.communicate(timeout=60)
    assert out.partition(b"\n")[2] == b"one\ntwo\nthree\n"
    assert [
        (one.word, parse_outcome(one).exit_code) for one in parse_answers(made.nonce, err) if one.word == "end"
    ] == [("end", 5)]
    replies, rest = follow(worker, run, 8, 5)
    assert (rest, replies[-1].word, parse_outcome(replies[-1]).size) == (b"three\n", "end", 14)


@pytest.mark.parametrize("taken", ["removed", *ELSEWHERE])
def test_a_follower_that_begins_while_its_directory_is_taken_away_sends_every_byte(
    worker: PipeWorker, taken: str
) -> None:
    run = a_run("sh", "-c", f"echo one; {WAIT}; echo two; exit 5")
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"one\n")
    strike, program = worker.home / "strike", worker.root / worker.shell / "bin" / "stat"
    strike.touch()
    real = program.resolve()
    program.unlink()
    take = f'rm "{strike}"; HERE="{worker.directory(run)}"; cd "$HERE"; {TAKEN[taken]}'
    program.write_text(f'#!/bin/sh\n[ ! -e "{strike}" ] || {{ {take}; }}\nexec {real} "$@"\n')
    program.chmod(0o755)
    made = build_call("follow", run.id, 0, 0, 600, 0, run_root=run.run_root)
    follower = worker.open(made)
    wait_until(lambda: not strike.exists())
    (worker.home / "end").touch()
    out, err = follower.communicate(timeout=60)
    assert out.partition(b"\n")[2] == b"one\ntwo\n"
    ends = [parse_outcome(answer) for answer in parse_answers(made.nonce, err) if answer.word == "end"]
    assert [(end.exit_code, end.size) for end in ends] == [(5, 8)], err


@pytest.mark.parametrize("taken", TAKEN)
def test_a_job_that_took_its_directory_away_is_listed_and_stopped(worker: PipeWorker, taken: str) -> None:
    run = a_run("sh", "-c", job(taken, "sleep 1000"))
    worker.launch(run).through()
    tag = tag_of(worker, run)
    assert tagged(tag)
    (worker.home / "take").touch()
    wait_until(lambda: follow(worker, run, 0, 1)[1] == b"one\ntwo\n")
    assert worker.ask("status", run)[0][0].text.split()[2] == "running"
    assert run.id in {answer.text.split()[0] for answer in worker.ask("list", run)[0] if answer.word == "run"}
    assert worker.ask("delete", run)[0][0].word == "alive"
    replies = worker.ask("stop", run, 10, 1, 0)[0]
    assert (replies[0].word, parse_outcome(replies[0]).exit_code) == ("stopped", 143), replies
    assert not tagged(tag)
    assert worker.ask("status", run)[0][0].text.split()[2] == "ended"
    assert follow(worker, run, 0, 5)[1] == b"one\ntwo\n"


@pytest.mark.bash
@pytest.mark.parametrize("taken", ELSEWHERE)
def test_a_directory_taken_away_during_the_stop_hides_no_exit_code(worker: PipeWorker, taken: str) -> None:
    script = f"cd {HERE}; trap 'sleep 0.3; {TAKEN[taken]}; exit 17' TERM; echo one; while :; do sleep 0.1; done"
    run = a_run("sh", "-c", f"HERE={HERE}; {script}")
    worker.launch(run).through()
    tag = tag_of(worker, run)
    wait_until(lambda: follow(worker, run, 0, 1)[1] == b"one\n")
    replies = worker.ask("stop", run, 100, 1, 0)[0]
    assert not tagged(tag)
    # If the whole .tpu-tui directory is removed, no record is written again: only a follower gets the code.
    code = None if taken == "all removed" else 17
    assert (replies[0].word, parse_outcome(replies[0]).exit_code) == ("stopped", code), replies


@pytest.mark.parametrize("taken", ELSEWHERE)
def test_no_second_run_starts_while_one_whose_directory_is_gone_is_running(worker: PipeWorker, taken: str) -> None:
    run = a_run("sh", "-c", job(taken, "sleep 1000"))
    (worker.home / "take").touch()
    running(worker, run, taken) if taken != "directory removed" else worker.launch(run).through()
    wait_until(lambda: b"two" in follow(worker, run, 0, 1)[1])
    if taken == "all removed":
        shutil.rmtree(worker.home / ".tpu-tui")
    answer = worker.launch(a_run("touch", str(worker.home / "second"))).answer()
    assert (answer.word, answer.text.split()[:3]) == ("refused", ["busy", "run", run.id])
    assert answer.text.split()[4].isdigit(), answer
    worker.ask("stop", run, 10, 1, 0)
    second = a_run("true")
    worker.launch(second).through()
    assert ended(worker, second)["exit"] == "0"


def test_a_log_cut_short_by_its_job_ends_with_what_was_written_after(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", f"echo 123456789; sleep 0.3; : >{HERE}/log; echo after; exit 6")
    worker.launch(run).through()
    status = ended(worker, run)
    assert (status["exit"], status["size"]) == ("6", "6")
    assert (worker.directory(run) / "log").read_bytes() == b"after\n"
    replies, _ = follow(worker, run, 10, 5)
    assert [answer.word for answer in replies] == ["short", "end"]


def kill_supervisors(run: Run, worker: int = 0) -> None:
    """Kill every process that supervises a job, as an out-of-memory killer might."""

    def family() -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"supervise\0{run.id}\0{worker}\0".encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return found

    wait_until(lambda: bool(family()))
    while family():
        for pid in family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.bash
def test_a_job_without_directory_and_supervisor_is_found_by_its_tag(worker: PipeWorker) -> None:
    run = a_run("env", "-i", "PATH=/usr/bin:/bin", "sleep", "1000")
    launch = worker.launch(run)
    armed = launch.answer()
    tag = armed.fields["tag"]
    launch.send(b"go!")
    launch.answer()
    launch.send(b"ok!")
    launch.answer()
    wait_until(lambda: bool(tagged(tag)))
    kill_supervisors(run)
    shutil.rmtree(worker.home / ".tpu-tui")
    assert tagged(tag)
    replies = worker.ask("stop", run, 10, 1, int(tag))[0]
    assert replies[0].word == "stopped"
    assert replies[0].fields.get("never") != "1"
    assert not tagged(tag)
    assert worker.ask("stop", run, 10, 1, int(tag))[0][0].fields["never"] == "1"


def test_a_job_without_directory_and_supervisor_is_found_by_its_environment_too(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    tag = tag_of(worker, run)
    wait_until(lambda: bool(tagged(tag)))
    kill_supervisors(run)
    shutil.rmtree(worker.home / ".tpu-tui")
    answer = worker.launch(a_run("true")).answer()
    assert (answer.word, answer.text.split()[0]) == ("refused", "busy")
    assert worker.ask("stop", run, 10, 1, 0)[0][0].word == "stopped"
    assert not tagged(tag)


def test_a_job_is_found_after_the_home_directory_has_changed(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", "echo on; exec sleep 1000")
    worker.launch(run).through()
    tag = tag_of(worker, run)
    home, worker.home = worker.home, worker.root / "another"
    worker.home.mkdir()
    wait_until(lambda: follow(worker, run, 0, 1)[1] == b"on\n")
    replies = worker.ask("stop", run, 10, 1, int(tag))[0]
    assert (replies[0].word, parse_outcome(replies[0]).exit_code) == ("stopped", 143), replies
    assert not tagged(tag)
    worker.home = home
    assert ended(worker, run)["exit"] == "143"


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a directory that another user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user needs root")
def test_a_process_of_another_user_is_not_trusted_to_be_a_supervisor(worker: PipeWorker, place: Path) -> None:
    run, victim = a_run("true"), place / "victim"
    victim.mkdir()
    card, held = place / "card", place / "held"
    card.write_text(f"1 2305843009213693953 0 boot place 0 {run.id} 0\n{victim}\n\n{{}}")
    held.touch()
    script = f"exec 4<{card} 8<{held}; set -- supervise {run.id} 0; while :; do sleep 0.1; done"
    (place / "worker.sh").write_text(script)
    for path in (place / "worker.sh", card, held):
        path.chmod(0o644)
    command = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "./worker.sh", "supervise", run.id, "0", "x", ""]
    with subprocess.Popen(command, cwd=place) as impostor:
        wait_until(lambda: b"supervise" in Path(f"/proc/{impostor.pid}/cmdline").read_bytes())
        wait_until(lambda: Path(f"/proc/{impostor.pid}/fd/8").exists())
        try:
            assert worker.ask("status", run)[0][0].word == "norun"
            assert worker.ask("list", run)[0][-1].word == "listed"
            assert not list(victim.iterdir())
        finally:
            impostor.kill()

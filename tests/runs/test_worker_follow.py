"""The `follow`, `status`, `list` and `entitle` calls of worker.sh, over pipes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, ended, needs_linux
from tests.waiting import wait_until
from tui.runs.worker.calls import MOST_POLLS_PER_S, build_call, follow_timeout_s, poll_interval_s
from tui.ssh.exec.script_protocol import Answer, parse_answers

pytestmark = [needs_linux, pytest.mark.timing]


def test_a_follower_resumes_at_any_byte_and_reports_the_end(worker: PipeWorker) -> None:
    junk = worker.root / "junk"
    junk.write_bytes(os.urandom(300_000) + b"\0\r\n\x1b]0;x\x07no newline at the end")
    run = a_run("cat", str(junk))
    worker.launch(run).through()
    size = int(ended(worker, run)["size"])
    assert size == junk.stat().st_size
    for offset in (0, 1, 299_999, size):
        answers, out, _ = worker.ask("follow", run, offset, 600, 0)
        assert out.partition(b"\n")[2] == junk.read_bytes()[offset:]
        assert main_words(answers) == ["log", "end"]
        assert answers[1].fields["size"] == str(size)


@pytest.mark.bash
def test_a_follower_sees_a_live_run_to_its_last_byte(worker: PipeWorker) -> None:
    lines = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; sleep 0.4; printf end; exit 5"
    run = a_run("sh", "-c", lines)
    worker.launch(run).through()
    answers, out, _ = worker.ask("follow", run, 0, 600, 0)
    assert out.partition(b"\n")[2] == b"".join(b"line %d\n" % i for i in range(1, 301)) + b"end"
    assert answers[-1].word == "end"
    assert answers[-1].fields["exit"] == "5"


def main_words(answers: Sequence[Answer]) -> list[str]:
    """Return the words of a follower's answers, without those about a live run, which may still come at its end."""
    return [answer.word for answer in answers if answer.word not in ("ending", "room")]


def test_a_follower_beyond_the_end_is_refused_and_not_sent_the_whole_log_again(worker: PipeWorker) -> None:
    run = a_run("echo", "short")
    worker.launch(run).through()
    ended(worker, run)
    answers, out, _ = worker.ask("follow", run, 100, 600, 0)
    assert main_words(answers) == ["short", "end"]
    assert b"\nshort" not in out


def test_a_live_run_whose_log_was_cut_short_has_not_ended(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", 'echo 123456789; while [ ! -e "$HOME/end" ]; do sleep 0.1; done')
    worker.launch(run).through()
    log = worker.directory(run) / "log"
    wait_until(lambda: log.stat().st_size == 10)
    os.truncate(log, 0)
    answers, _, _ = worker.ask("follow", run, 10, 1, 0)
    assert [answer.word for answer in answers] == ["short", "room"]
    (worker.home / "end").touch()
    ended(worker, run)
    answers, _, _ = worker.ask("follow", run, 10, 5, 0)
    assert main_words(answers) == ["short", "end"]


def test_a_removed_log_does_not_keep_a_follower_from_seeing_the_end(worker: PipeWorker) -> None:
    run = a_run("sh", "-c", 'while [ ! -e "$HOME/end" ]; do sleep 0.1; done; exit 4')
    worker.launch(run).through()
    (worker.directory(run) / "log").unlink()
    (worker.home / "end").touch()
    assert (ended(worker, run)["size"], ended(worker, run)["exit"]) == ("0", "4")
    answers, _, _ = worker.ask("follow", run, 0, 5, 0)
    assert main_words(answers) == ["log", "end"]


def test_a_follower_whose_time_is_up_reports_no_end(worker: PipeWorker) -> None:
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    answers, _, _ = worker.ask("follow", run, 0, 1, 0)
    assert [answer.word for answer in answers] == ["log", "room"]
    worker.ask("stop", run, 10, 0)


@pytest.mark.parametrize(("workers", "pace"), [(1, 0.1), (16, 0.1), (64, 0.32), (128, 0.64), (2048, 1.0)])
def test_workers_of_a_large_pod_poll_their_logs_less_often(worker: PipeWorker, workers: int, pace: float) -> None:
    assert poll_interval_s(workers) == pytest.approx(pace)
    assert workers / poll_interval_s(workers) <= max(MOST_POLLS_PER_S, workers)
    assert len({follow_timeout_s() for _ in range(2048)}) > 100
    run = a_run("sleep", "1000")
    worker.launch(run).through()
    worker.open(build_call("follow", run.id, 0, 0, 600, 0, run_root=run.run_root, pace=poll_interval_s(workers)))
    wait_until(lambda: f"{pace:.2f}" in _pauses(worker.directory(run)))
    worker.ask("stop", run, 10, 0)


def _pauses(directory: Path) -> list[str]:
    """Return the poll interval of every `tail` that runs in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0] == b"tail" and (process / "cwd").resolve() == directory.resolve():
                found.append(words[words.index(b"-s") + 1].decode())
    return found


@pytest.mark.bash
def test_status_and_list_report_the_runs_of_a_worker(worker: PipeWorker) -> None:
    done, going = a_run("sh", "-c", "exit 2"), a_run("sleep", "1000")
    worker.launch(done).through()
    ended(worker, done)
    worker.launch(going).through()
    answers, _, _ = worker.ask("list", going)
    rows = {answer.text.split()[0]: answer.text.split()[2] for answer in answers if answer.word == "run"}
    assert rows == {done.id: "ended", going.id: "running"}
    assert answers[-1].word == "listed"
    assert worker.ask("status", done)[0][0].fields["exit"] == "2"
    assert worker.ask("status", a_run("true"))[0][0].word == "norun"
    assert b"\n{}" in worker.ask("show", done)[1]
    worker.ask("stop", going, 10, 0)


def test_one_of_many_applicants_is_entitled_to_act_at_the_end_of_a_run_and_stays_so(worker: PipeWorker) -> None:
    run = a_run("true")
    worker.launch(run).through()
    ended(worker, run)
    made = [build_call("entitle", run.id, 0, number, run_root=run.run_root) for number in range(1, 9)]
    asking = [worker.open(one) for one in made]
    outs = [process.communicate(timeout=90)[0] for process in asking]
    intervals = {
        (answer.word, answer.text)
        for one, out in zip(made, outs, strict=True)
        for answer in parse_answers(one.nonce, out)
    }
    assert len(intervals) == 1, intervals
    word, number = intervals.pop()
    assert (word, int(number) in range(1, 9)) == ("entitled", True)
    assert worker.ask("entitle", run, 99)[0][0].text == number
    assert worker.ask("delete", run)[0][0].word == "deleted"
    assert not worker.directory(run).parent.exists()
    assert worker.ask("entitle", run, 99)[0][0].word == "norun"

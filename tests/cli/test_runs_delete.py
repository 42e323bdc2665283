"""`runs delete` needs a confirmation: at a terminal it lists the runs and asks, elsewhere it refuses."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.commands import Question, Shell
from tests.cli.conftest import LocalPod
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing

NIGHT = "night-20260102-000000-aaaa"
DAY = "day-20260101-000000-bbbb"


def ended(shell: Shell, run: str, state: str = "failed") -> RunDirectory:
    """Make an ended run of four workers that only this machine knows."""
    workers = tuple(Worker(index, internal_ip=f"10.0.0.{index}") for index in range(4))
    made = Run(id=run, slice="pod", job=JobOptions(("x",)), workers=workers, created="2026-01-01T00:00:00Z")
    directory = RunDirectory.create(shell.home / "runs", made)
    directory.log_path(0).write_bytes(b"x" * 2_500_000)
    directory.append_event("state", state=state, cause=None)
    return directory


def test_at_a_terminal_the_runs_are_listed_and_a_yes_deletes_them(shell: Shell) -> None:
    directory = ended(shell, NIGHT)
    with Question(shell, "runs", "delete", "last", "--on", "here") as question:
        question.waits_for("Delete? [y/N] ")
        assert directory.path.exists()
        answer = question.answers("y\n")
    assert (answer.code, answer.out) == (0, f"{NIGHT} deleted\n")
    assert f"{NIGHT} · failed · 2.6 MB here · workers 0, 1, 2, 3 of pod" in answer.errors
    assert "here only" in answer.errors
    assert not directory.path.exists()


@pytest.mark.parametrize("reply", ["\n", "n\n", "\x04", "yeah\n"])
def test_anything_but_a_yes_deletes_nothing(shell: Shell, reply: str) -> None:
    directory = ended(shell, NIGHT)
    with Question(shell, "runs", "delete", NIGHT, "--on", "here", "--json") as question:
        question.waits_for("Delete? [y/N] ")
        answer = question.answers(reply)
    assert (answer.code, answer.document) == (1, [{"run": NIGHT, "deleted": False, "detail": "not confirmed"}])
    assert "Nothing was deleted." in answer.errors
    assert directory.path.exists()


def test_ctrl_c_at_the_question_deletes_nothing(shell: Shell) -> None:
    directory = ended(shell, NIGHT)
    with Question(shell, "runs", "delete", NIGHT, "--on", "here") as question:
        question.waits_for("Delete? [y/N] ")
        question.process.send_signal(signal.SIGINT)
        answer = question.ends()
    assert (answer.code, answer.out) == (130, "")
    assert "Traceback" not in answer.errors
    assert directory.path.exists()


@pytest.mark.parametrize("words", [(NIGHT,), ("night", "day"), ("--older-than", "0s")])
def test_without_a_terminal_nothing_is_deleted_unless_yes_is_given(shell: Shell, words: tuple[str, ...]) -> None:
    directories = [ended(shell, NIGHT), ended(shell, DAY)]
    refused = shell.call("runs", "delete", *words, "--on", "here")
    assert (refused.code, refused.out) == (2, "")
    assert "without confirmation" in refused.errors
    assert NIGHT in refused.errors
    assert "→ add --yes" in refused.errors
    assert all(directory.path.exists() for directory in directories)
    assert shell.call("runs", "delete", *words, "--on", "here", "--yes").code == 0
    assert not directories[0].path.exists()


@pytest.mark.parametrize("words", [("last", "--yes"), ("last",), (DAY, "last", "--yes")])
def test_the_word_last_never_deletes_the_newest_run_without_a_question(shell: Shell, words: tuple[str, ...]) -> None:
    directories = [ended(shell, NIGHT), ended(shell, DAY)]
    refused = shell.call("runs", "delete", *words, "--on", "here")
    assert (refused.code, refused.out) == (2, "")
    assert "refusing to delete `last` without confirmation" in refused.errors
    assert NIGHT in refused.errors
    assert all(directory.path.exists() for directory in directories)


def test_a_live_run_is_neither_listed_nor_deleted(pod: LocalPod, tmp_path: Path) -> None:
    launched = _launched(pod, "stays", "sleep", "1000")
    over = ended(pod.shell, DAY)
    with Question(pod.shell, "runs", "delete", launched, DAY, "--on", "here") as question:
        question.waits_for("Delete? [y/N] ")
        assert launched not in question.shown
        answer = question.answers("y\n")
    assert (answer.code, answer.out) == (2, f"{DAY} deleted\n")
    assert f"{launched} is live\n" in answer.errors.replace("\r", "")
    assert not over.path.exists()
    assert pod.call("status", launched, "--json").document["state"] == "running"
    assert pod.call("stop", launched, "--grace", "1").code == 0


@pytest.mark.parametrize(("where", "left_here", "left_there"), [("here", False, True), ("workers", True, False)])
def test_a_run_is_deleted_where_the_option_on_says(
    pod: LocalPod, where: str, left_here: bool, left_there: bool
) -> None:
    run = _launched(pod, f"on-{where}", "true")
    assert pod.call("attach", run).code == 0
    assert pod.call("runs", "delete", run, "--on", where, "--yes").code == 0
    assert (pod.shell.home / "runs" / run).exists() == left_here
    listed = pod.call("exec", "local", "--json", "--", "sh", "-c", f"ls -d ~/.tpu-tui/runs/{run}/* | wc -l").document
    assert [int(row["stdout"]) > 0 for row in listed] == [left_there] * 4
    assert pod.call("runs", "delete", run, "--yes").code in (0, 2)


def _launched(pod: LocalPod, name: str, *job: str) -> str:
    words = ("launch", "local", "--skip-checks", "--name", name, "--detach", "--json", "--", *job)
    return str(pod.call(*words).document["run"])

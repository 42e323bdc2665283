"""`runs` on what this machine knows."""

from __future__ import annotations

from tests.cli.commands import Shell
from tests.logs.shapes import training
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.directory import RunDirectory


def made(shell: Shell, run: str) -> RunDirectory:
    workers = (Worker(0, internal_ip="10.0.0.1"), Worker(1, internal_ip="10.0.0.2"))
    directory = RunDirectory.create(shell.home / "runs", Run(id=run, slice="pod", argv=("x",), workers=workers))
    for worker in (0, 1):
        line = training(core=worker, epoch=2, step=30 + worker, loss="1.50000") + "\n"
        directory.log_path(worker).write_text(line)
    return directory


def test_runs_tells_the_newest_figures_and_why_a_run_failed(shell: Shell) -> None:
    made(shell, "goes-20260102-000000-aaaa")
    failed = made(shell, "fell-20260101-000000-bbbb")
    failed.append_event("state", state="failed", cause="worker 1 ended with exit code 7")

    answer = shell.run("runs", "--offline")

    goes, fell = answer.out.splitlines()[-2:]
    assert goes.startswith("goes-")
    assert "loss 1.50000 step 30 epoch 2" in goes
    assert "worker 1 ended with exit code 7" in fell
    assert "loss" not in fell
    assert (answer.code, answer.errors) == (0, "")


def test_runs_as_json_holds_no_figures_that_were_only_glanced_at(shell: Shell) -> None:
    made(shell, "goes-20260102-000000-aaaa")
    [run] = shell.run("runs", "--offline", "--json").document
    assert (run["run"], run["loss"], run["step"]) == ("goes-20260102-000000-aaaa", None, None)

"""The table of `cores`."""

from __future__ import annotations

from tests.cli.commands import Shell
from tests.logs.shapes import training
from tests.run_records import make_run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory


def test_a_core_of_the_worker_that_failed_first_is_called_failed_as_in_the_console(shell: Shell) -> None:
    run = make_run("r-20260101-000000-abcd", "pod", ("x",), (Worker(0), Worker(1)))
    directory = RunDirectory.create(shell.home / "runs", run)
    directory.append_event("state", state="running")
    for worker in (0, 1):
        directory.log_path(worker).write_text(training(core=worker, step=10) + "\n")
        directory.append_event("exit", worker=worker, exit_code=7 * worker, signal=None)
    directory.append_event("failure", worker=1, exit_code=7, cause="worker 1 exited with 7")
    directory.append_event("state", state="failed")
    printed = shell.call("cores", "r-2026", "--offline")
    assert [line.split()[-1] for line in printed.out.splitlines()[1:]] == ["ended", "failed"]
    rows = shell.call("cores", "r-2026", "--offline", "--json").document
    assert [row["state"] for row in rows] == ["ended", "ended"]

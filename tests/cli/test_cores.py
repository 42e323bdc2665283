"""The table of `cores`."""

from __future__ import annotations

from tests.cli.commands import Shell
from tests.logs.shapes import SAMPLE_LOG, training
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
    for worker, error in (("5", "has no worker 5"), ("10.0.0.9", "has no worker at 10.0.0.9")):
        refused = shell.call("cores", "r-2026", "--offline", "--worker", worker)
        assert (refused.code, error in refused.errors) == (2, True)


def test_a_worker_without_training_lines_is_not_a_log_without_them(shell: Shell) -> None:
    printed = shell.call("cores", str(SAMPLE_LOG), "--worker", "9")
    assert (printed.code, printed.out) == (0, "")
    assert printed.errors == "No training lines of worker 9: there are some of workers 0-2.\n"

"""Tests of the logs of workers as text files: exact copies that never replace another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_records import make_run
from tui.errors import UsageError
from tui.logs.saved_log import open_log
from tui.pod.run import make_run_id
from tui.pod.worker import Worker
from tui.reports.worker_logs import write_worker_logs
from tui.runs.record.run_directory import RunDirectory

SAMPLE = Path(__file__).parents[1] / "logs/data/xla_dist_sample.log"


def test_a_saved_log_is_split_by_worker_as_by_grep(tmp_path: Path) -> None:
    log = open_log(SAMPLE)
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    paths = write_worker_logs(log, tmp_path, stem="out.log")
    assert [path.name for path in paths] == [f"out.log.worker-{worker:03d}.txt" for worker in log.workers()]
    for worker, path in zip(log.workers(), paths, strict=True):
        assert path.read_bytes() == b"".join(line for line in lines if b" [%d] " % worker in line)


def test_an_earlier_copy_is_replaced_and_any_other_file_by_force_only(tmp_path: Path) -> None:
    log = open_log(SAMPLE)
    (first, *_) = write_worker_logs(log, tmp_path)
    whole = first.read_bytes()
    first.write_bytes(whole[:100])
    write_worker_logs(log, tmp_path)
    assert first.read_bytes() == whole
    first.write_bytes(b"my notes")
    with pytest.raises(UsageError, match="not an earlier copy"):
        write_worker_logs(log, tmp_path)
    assert first.read_bytes() == b"my notes"
    write_worker_logs(log, tmp_path, force=True)
    assert first.read_bytes() == whole
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_log_that_names_no_worker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.log").write_text("step 1 loss 2\n")
    with pytest.raises(UsageError, match="no log of a worker"):
        write_worker_logs(open_log(tmp_path / "plain.log"), tmp_path)


def test_the_logs_of_all_attempts_are_joined_in_order(tmp_path: Path) -> None:
    workers = [Worker(index=0), Worker(index=1)]
    directory = RunDirectory.create(tmp_path / "runs", make_run(make_run_id("r"), "r", ["true"], workers))
    for attempt, text in ((10, b"third "), (2, b"second "), (0, b"first ")):
        path = directory.attempt_path(attempt)
        path.mkdir(parents=True)
        (path / "worker-000.log").write_bytes(text)
    directory.log_path(0).write_bytes(b"last")
    (path,) = write_worker_logs(directory, tmp_path / "out")
    assert path.read_bytes() == b"first second third last"

"""Tests of the slice's cores without any line, in status and report, and of the offset of a core's first nan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.console.stage import a_slice, begin, make_run, training_line, write
from tui.commands.status import _format_missing
from tui.reports.facts import summary_of_run
from tui.reports.status import status_document
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

START = 1_700_000_000.0


def run_without(home: Path, silent: int, **facts: object) -> RunDirectory:
    """Make a run on four workers of eight cores; `silent` prints nothing, and core 9 has a nan from step 12."""
    run = make_run(a_slice())
    made = RunDirectory.create(home / "runs", replace(run, **facts) if facts else run)  # type: ignore[arg-type]
    begin(made)
    for step in range(20):
        for worker in made.run.workers:
            if worker.index != silent:
                cores = range(worker.index * 8, worker.index * 8 + 8)
                lost = {core: core == 9 and step >= 12 for core in cores}
                printed = (training_line(core, 1, step, "nan" if lost[core] else 6.5, 250.0) for core in cores)
                write(made, worker.index, b"".join(printed), START + 5 * step)
    return made


def document(directory: RunDirectory) -> dict[str, object]:
    reader = RunReader(directory)
    while reader.poll():
        pass
    return status_document(status_of(directory), reader.snapshot(START + 100))


def test_status_names_the_cores_above_the_highest_that_shows_anything(tmp_path: Path) -> None:
    printed = document(run_without(tmp_path, silent=3))
    assert (printed["cores"], printed["cores_expected"]) == (24, 32)
    assert printed["missing_cores"] == list(range(24, 32))
    assert _format_missing(printed) == "no line from cores 24-31 (worker 3)"


@pytest.mark.parametrize(("accelerator", "expected"), [("v3-32", 32), ("v3-64", None), (None, None)])
def test_without_a_count_of_cores_the_accelerator_type_has_it_if_it_fits_the_workers(
    tmp_path: Path, accelerator: str | None, expected: int | None
) -> None:
    printed = document(run_without(tmp_path, silent=3, cores_per_worker=None, accelerator_type=accelerator))
    assert printed["cores_expected"] == expected
    assert printed["missing_cores"] == ([] if expected is None else list(range(24, 32)))


def test_the_report_names_the_missing_cores_too(tmp_path: Path) -> None:
    directory = run_without(tmp_path, silent=1)
    remarks = summary_of_run(directory).remarks
    assert "No line from cores 8-15 (worker 1): it is unknown whether they trained." in remarks


def test_the_first_nan_of_a_core_leads_to_its_line_in_the_mirror(tmp_path: Path) -> None:
    directory = run_without(tmp_path, silent=3)
    reader = RunReader(directory)
    while reader.poll():
        pass
    (nan,) = [row.first_nan for row in reader.snapshot(START + 100).rows() if row.first_nan]
    assert (nan.epoch, nan.step, nan.worker, nan.time) == (1, 12, 1, "2023-11-14T22:14:20Z")
    line = directory.log_path(1).read_bytes()[nan.offset :].split(b"\n")[0]
    assert b"/9 Epoch=1 Step=12 Loss=nan" in line

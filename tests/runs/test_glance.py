from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.logs.shapes import training
from tui.logs.dialects.user_dialects import user_dialects
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.read.latest_figures import TAIL_BYTES, WORKERS_READ, FiguresCache, LatestFigures
from tui.runs.record.run_directory import RunDirectory


def create_run(tmp_path: Path, workers: int = 3) -> RunDirectory:
    run = Run(
        id="demo-20260101-000000-abcd",
        slice="demo",
        job=JobOptions(("x",)),
        workers=tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(workers)),
    )
    return RunDirectory.create(tmp_path, run)


def add(directory: RunDirectory, worker: int, text: str | bytes) -> None:
    with directory.log_path(worker).open("ab") as log:
        log.write(text.encode() if isinstance(text, str) else text)


def test_a_run_without_logs_has_no_figures(tmp_path: Path) -> None:
    assert FiguresCache().get(create_run(tmp_path)) == LatestFigures()


def test_the_figures_are_medians_of_the_newest_lines_of_the_workers(tmp_path: Path) -> None:
    directory = create_run(tmp_path)
    for worker, loss in enumerate(("3.0", "1.5", "2.0")):
        for step in (10, 20, 30):
            add(directory, worker, training(core=worker, epoch=2, step=step, loss=loss) + "\n")
    found = FiguresCache().get(directory)
    assert found == LatestFigures(2, 30, 2.0)
    assert str(found) == "loss 2.00000 step 30 epoch 2"


def test_only_the_end_of_a_log_is_read_and_a_line_cut_off_there_is_ignored(tmp_path: Path) -> None:
    directory = create_run(tmp_path, workers=1)
    last = training(core=0, epoch=1, step=7, loss="0.5") + "\n"
    cut = training(core=1, epoch=9, step=9999, loss="99.0")
    rest = TAIL_BYTES - len(last) - len(cut) // 2
    add(directory, 0, training(core=5, step=1, loss="50.0") + "\n" + cut + "x" * (rest - 1) + "\n" + last)
    assert FiguresCache().get(directory) == LatestFigures(1, 7, 0.5)


def lines_at(directory: RunDirectory, worker: int, *, steps: int, rate: str) -> None:
    text = "".join(training(core=worker, epoch=1, step=step, rate=rate) + "\n" for step in range(steps))
    add(directory, worker, text)


def test_a_core_that_is_behind_and_slow_by_its_rates_is_found_before_a_keeper_reports_it(tmp_path: Path) -> None:
    directory = create_run(tmp_path)
    lines_at(directory, 0, steps=60, rate="100.0")
    lines_at(directory, 1, steps=20, rate="33.0")
    lines_at(directory, 2, steps=60, rate="100.0")
    (finding,) = FiguresCache().get(directory).stragglers
    assert (finding.kind, finding.core, finding.worker, finding.steps_behind) == ("behind", 1, 1, 40)


def test_a_core_whose_log_came_later_is_no_straggler(tmp_path: Path) -> None:
    directory = create_run(tmp_path)
    for worker, steps in enumerate((60, 20, 60)):
        lines_at(directory, worker, steps=steps, rate="100.0")
    assert FiguresCache().get(directory).stragglers == ()


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_figures_before_a_very_long_line_are_found(tmp_path: Path, end: str) -> None:
    directory = create_run(tmp_path, workers=1)
    add(directory, 0, training(core=0, epoch=1, step=7, loss="0.5") + "\n" + "x" * 1_000_000 + end)
    assert FiguresCache().get(directory) == LatestFigures(1, 7, 0.5)


def test_a_log_is_read_again_only_when_one_has_grown(tmp_path: Path) -> None:
    directory = create_run(tmp_path)
    cache = FiguresCache()
    add(directory, 0, training(core=0, epoch=1, step=1, loss="4.0") + "\n")
    first = cache.get(directory)
    assert first.loss == 4.0
    assert cache.get(directory) is first
    add(directory, 2, training(core=2, epoch=1, step=2, loss="2.0") + "\n")
    assert cache.get(directory).loss == 3.0


def test_a_loss_that_has_become_nan_is_shown_as_nan(tmp_path: Path) -> None:
    directory = create_run(tmp_path, workers=1)
    add(directory, 0, training(core=0, epoch=3, step=5, loss="nan") + "\n")
    found = FiguresCache().get(directory)
    assert found.loss is not None
    assert math.isnan(found.loss)
    assert (found.epoch, found.step) == (3, 5)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 2048])
def test_in_a_large_pod_a_sample_of_the_workers_is_read(tmp_path: Path, count: int) -> None:
    directory = create_run(tmp_path, workers=count)
    for worker in range(count):
        add(directory, worker, training(core=worker, epoch=1, step=worker, loss="1.0") + "\n")
    cache = FiguresCache()
    found = cache.get(directory)
    assert found.step is not None
    assert abs(found.step - count // 2) <= count // WORKERS_READ + 1


def test_hostile_bytes_give_no_figures(tmp_path: Path) -> None:
    directory = create_run(tmp_path, workers=1)
    add(directory, 0, b"\x00\xff\x1b]0;x\x07[/bold]" * 100_000)
    assert FiguresCache().get(directory) == LatestFigures()


def test_a_users_own_dialect_is_read(tmp_path: Path) -> None:
    directory = create_run(tmp_path, workers=1)
    own = user_dialects({"mine": {"pattern": r"^at (?P<step>\d+) it was (?P<loss>[\d.]+)$"}})
    add(directory, 0, "at 12 it was 0.25\n")
    assert FiguresCache(own).get(directory) == LatestFigures(None, 12, 0.25)

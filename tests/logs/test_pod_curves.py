"""Tests of the pod's curves against the samples a simulated pod had printed at each moment; two cores are slower."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.logs.shapes import training
from tui.console.widgets.charts.charts import time_axis
from tui.logs.demux import Demux
from tui.logs.history.grouping import RowGroups
from tui.logs.history.history import History, PodSeries
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BEGAN = 1_700_000_000.0
NEAR = 0.02
SLOW = {7: 3.0, 11: 20.0}
"""How many times slower than the others these cores are."""


def falling(steps: npt.NDArray[np.float64]) -> Floats:
    """Return a loss that falls steeply at first."""
    return 0.4 + 6.5 * np.exp(-steps / 12) + 0.3 * np.exp(-steps / 400)


class SimulatedPod:
    """All samples of a pod in the order of their time, and each core's newest loss at any moment."""

    def __init__(self, cores: int, seconds: float, every: float = 1.0) -> None:
        rng = np.random.default_rng(5)
        pace = every * np.array([SLOW.get(core, 1.0) for core in range(cores)])
        counts = (seconds / pace).astype(np.int64)
        core = np.arange(cores).repeat(counts)
        step = np.concatenate([np.arange(count) for count in counts])
        late = rng.uniform(0, 0.4 * every, cores)
        time = (step + 1) * pace[core] + late[core]
        order = np.argsort(time, kind="stable")
        self.core, self.step, self.time = core[order], step[order], BEGAN + time[order]
        self.loss: Floats = np.round(falling(self.step.astype(np.float64)) * (1 + self.core % 5 / 100), 5)
        self.cores = cores

    def __len__(self) -> int:
        return len(self.core)

    def newest(self, moments: Floats) -> Iterator[Floats]:
        """Yield each core's newest loss at each of ascending moments; NaN before its first."""
        losses = np.full(self.cores, np.nan)
        done = 0
        for moment in moments:
            until = int(np.searchsorted(self.time, moment, side="right"))
            losses[self.core[done:until]] = self.loss[done:until]
            done = until
            yield losses

    def check(self, series: PodSeries, *, offset: float = 0.0) -> None:
        """Compare every point of the curves with the pod's losses; the series' times plus `offset` are the pod's."""
        assert len(series.time) > 25
        assert (np.diff(series.time) > 0).all()
        for place, losses in enumerate(self.newest(series.time + offset)):
            assert series.loss_median[place] == pytest.approx(np.nanmedian(losses), rel=NEAR), place
            assert series.loss_min[place] == pytest.approx(np.nanmin(losses), rel=NEAR), place
            assert series.loss_max[place] == pytest.approx(np.nanmax(losses), rel=NEAR), place


def history_of(pod: SimulatedPod, times: Floats, batch: int) -> History:
    """Return a history that has taken the pod's samples in batches of this size."""
    history = History()

    for start in range(0, len(pod), batch):
        part = slice(start, start + batch)
        runs, size = RowGroups.of(pod.core[part]), len(pod.core[part])
        history.add(runs, pod.loss[part], np.full(size, 10.0), np.ones(size, np.int64), pod.step[part], times[part])
    return history


@pytest.mark.parametrize(("cores", "seconds", "batch"), [(64, 900, 500), (64, 40, 7), (16_384, 90, 9000)])
def test_every_point_is_the_cores_newest_losses_at_its_time(cores: int, seconds: float, batch: int) -> None:
    pod = SimulatedPod(cores, seconds)
    pod.check(history_of(pod, pod.time, batch).pod(np.arange(cores)))


@pytest.mark.parametrize("seconds", [45, 700])
def test_the_curves_of_a_live_run_use_the_times_of_arrival(seconds: float) -> None:
    """Eight workers whose lines arrive ten times a second."""
    pod = SimulatedPod(64, seconds)
    pod.time = np.ceil(pod.time * 10) / 10
    demux = Demux()
    for moment in np.unique(pod.time):
        here = np.flatnonzero(pod.time == moment)
        for worker in range(8):
            own = here[pod.core[here] % 8 == worker]
            lines = (training(int(pod.core[n]), int(pod.step[n]), f"{pod.loss[n]:.5f}") for n in own)
            demux.feed(worker, "".join(f"{line}\n" for line in lines).encode(), now=float(moment))
    snapshot = demux.snapshot(now=float(pod.time[-1]))
    assert snapshot.history is not None
    pod.check(snapshot.history.pod(snapshot.row))


def logged(pod: SimulatedPod, *, dated: bool) -> list[tuple[int, str]]:
    """Return the worker and line of each sample of a saved log, with xla_dist's prefix or the printed clock alone."""
    lines = []
    for core, step, loss, time in zip(pod.core, pod.step, pod.loss, pod.time, strict=True):
        moment = datetime.fromtimestamp(float(time), timezone.utc)
        line = training(int(core), int(step), f"{loss:.5f}", clock=moment.strftime("%H:%M:%S"))
        worker = int(core) % 8
        before = f"{moment:%Y-%m-%d %H:%M:%S} 10.164.0.{worker + 40} [{worker}] " if dated else ""
        lines.append((worker, f"{before}{line}\n"))
    return lines


@pytest.mark.parametrize("began", [0.0, 86_100.0 - BEGAN % 86_400], ids=["by day", "over midnight"])
@pytest.mark.parametrize("dated", [True, False], ids=["dates", "clocks"])
@pytest.mark.parametrize("together", [True, False], ids=["merged", "one worker after the other"])
def test_the_curves_of_a_log_use_the_times_of_its_lines(began: float, dated: bool, together: bool) -> None:
    pod = SimulatedPod(64, 600)
    pod.time = np.floor(pod.time + began)
    lines = logged(pod, dated=dated)
    demux = Demux()
    if together:
        demux.feed(None, "".join(line for _, line in lines).encode())
    else:
        for worker in range(8):
            data = "".join(line for each, line in lines if each == worker).encode()
            demux.feed(None if dated else worker, data)
    demux.finish()
    snapshot = demux.snapshot()
    assert snapshot.history is not None
    series = snapshot.history.pod(snapshot.row)
    pod.check(series, offset=0.0 if dated else pod.time[0] - pod.time[0] % 86_400)
    x, label = time_axis(series)
    assert label == "time"
    assert x[-1] == pod.time[-1] - pod.time[0]


def test_without_times_the_step_is_the_axis_of_all_cores() -> None:
    pod = SimulatedPod(64, 900)
    series = history_of(pod, np.full(len(pod), np.nan), 333).pod(np.arange(64))
    assert time_axis(series)[1] == "step"
    truth = [float(np.nanmedian(losses)) for losses in pod.newest(pod.time)]
    places = 0
    for median in series.loss_median:
        expected = pytest.approx(float(median), rel=1e-6)
        while truth[places] != expected:
            places += 1
    assert series.loss_median[-1] == pytest.approx(truth[-1], rel=1e-6)
    assert len(series.time) > 25


def test_a_core_that_ends_early_or_starts_late_does_not_bend_the_curve() -> None:
    pod = SimulatedPod(64, 600)
    gone = (pod.core == 3) & (pod.time > BEGAN + 200) | (pod.core == 5) & (pod.time < BEGAN + 300)
    pod.core, pod.step, pod.time, pod.loss = (each[~gone] for each in (pod.core, pod.step, pod.time, pod.loss))
    series = history_of(pod, pod.time, 100).pod(np.arange(64))
    pod.check(series)
    whole = series.rate_total[~np.isnan(series.rate_total)]
    assert whole[-1] == 63 * 10.0
    assert set(whole) <= {62 * 10.0, 63 * 10.0, 64 * 10.0}


def test_samples_after_a_pause_are_drawn_at_their_own_time() -> None:
    pod, again = SimulatedPod(64, 300), SimulatedPod(64, 300)
    again.time = again.time + 2000
    for name in ("core", "step", "time", "loss"):
        setattr(pod, name, np.concatenate((getattr(pod, name), getattr(again, name))))
    history = history_of(pod, pod.time, 250)
    for place, losses in enumerate(pod.newest(history.pod(np.arange(64)).time)):
        assert history.pod(np.arange(64)).loss_median[place] == pytest.approx(np.nanmedian(losses), rel=NEAR)


def test_cores_without_a_finite_loss_are_left_out_of_the_median() -> None:
    pod = SimulatedPod(64, 300)
    pod.loss[(pod.core < 20) & (pod.step > 40)] = np.nan
    pod.check(history_of(pod, pod.time, 300).pod(np.arange(64)))


@pytest.mark.parametrize("back", [1.0, 3600.0])
def test_after_a_clock_is_set_back_the_last_point_is_each_cores_newest_loss(back: float) -> None:
    pod = SimulatedPod(64, 600)
    printed = np.where(pod.time > BEGAN + 400, pod.time - back, pod.time)
    series = history_of(pod, printed, 100).pod(np.arange(64))
    (newest,) = (losses.copy() for losses in pod.newest(pod.time[-1:]))
    assert series.loss_median[-1] == pytest.approx(np.nanmedian(newest), rel=NEAR)
    assert (np.diff(series.time) > 0).all()


def test_one_torn_date_does_not_squeeze_the_run_into_a_point() -> None:
    pod = SimulatedPod(64, 600)
    printed = pod.time.copy()
    printed[1000], printed[2000], printed[3000] = BEGAN + 4e9, -1.0, np.inf
    pod.check(history_of(pod, printed, 100).pod(np.arange(64)))


@pytest.mark.parametrize("workers", [1, 16])
def test_a_run_that_is_opened_again_has_the_same_curves_as_live(workers: int, tmp_path: Path) -> None:
    """The curves do not depend on how many batches of lines the reader takes together."""
    pod = SimulatedPod(64, 500)
    pod.time = np.ceil(pod.time * 10) / 10
    addressed = tuple(Worker(index, internal_ip=f"10.0.0.{index + 1}") for index in range(workers))
    run = Run(id="demo-20260101-000000-abcd", slice="demo", job=JobOptions(("x",)), workers=addressed)
    directory = RunDirectory.create(tmp_path, run)
    arrivals, ends = [], [0] * workers
    logs = [bytearray() for _ in range(workers)]
    for core, step, loss, time in zip(pod.core, pod.step, pod.loss, pod.time, strict=True):
        worker = int(core) % workers
        logs[worker] += (training(int(core), int(step), f"{loss:.5f}") + "\n").encode()
        ends[worker] = len(logs[worker])
        arrivals.append(f"{worker} {ends[worker]} {time:.3f}\n")
    for worker, log in enumerate(logs):
        directory.log_path(worker).write_bytes(log)
    (directory.path / "arrivals").write_text("".join(arrivals))
    reader = RunReader(directory)
    while reader.poll():
        pass
    snapshot = reader.snapshot(now=float(pod.time[-1]))
    assert snapshot.history is not None
    pod.check(snapshot.history.pod(snapshot.row))

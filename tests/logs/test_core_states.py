"""Tests of what cores are doing: their lag, and which of them are stragglers, silent or ended."""

from __future__ import annotations

import math

import pytest

from tests.logs.shapes import only, snapshot_of, training
from tui.logs.demux import Demux


class TestLag:
    def test_is_in_steps_behind_the_median(self) -> None:
        steps = (100, 100, 100, 90, 60)
        rows = snapshot_of(*(training(core=core, step=step) for core, step in enumerate(steps))).rows()
        assert [row.lag for row in rows] == [0, 0, 0, 10, 40]

    def test_reaches_across_epochs(self) -> None:
        lines = [training(core=core, step=step, epoch=1) for step in range(0, 50, 10) for core in range(3)]
        lines += [training(core=core, step=step, epoch=2) for step in (0, 10) for core in range(2)]
        rows = snapshot_of(*lines).rows()
        assert [(row.epoch, row.step, row.lag) for row in rows] == [(2, 10, 0), (2, 10, 0), (1, 40, 20)]

    @pytest.mark.parametrize("first", [0, 1, 10])
    def test_reaches_from_the_last_step_of_an_epoch_to_the_first_of_the_next(self, first: int) -> None:
        lines = [training(core=core, step=step, epoch=1) for step in range(first, 50, 10) for core in range(3)]
        lines += [training(core=core, step=first, epoch=2) for core in range(2)]
        assert [row.lag for row in snapshot_of(*lines).rows()] == [0, 0, 10]

    def test_a_core_far_behind_is_a_straggler(self) -> None:
        lines = [
            training(core=core, step=step)
            for step in range(0, 110, 10)
            for core in range(4)
            if core != 2 or step < 50
        ]
        assert [row.state for row in snapshot_of(*lines).rows()] == ["training", "training", "straggler", "training"]

    def test_a_step_in_progress_makes_no_core_a_straggler(self) -> None:
        lines = [training(core=core, step=step) for step in (0, 10, 20) for core in range(4)]
        lines += [training(core=core, step=30) for core in range(2)]
        assert {row.state for row in snapshot_of(*lines).rows()} == {"training"}

    @pytest.mark.parametrize(("pause", "expected"), [(10.0, (2,)), (0.5, (2,)), (0.1, ())])
    def test_a_straggler_is_behind_for_some_time_at_the_pace_of_the_others(
        self, pause: float, expected: tuple[int, ...]
    ) -> None:
        demux = Demux()
        for step in range(20):
            for core in range(3):
                if core != 2 or step < 15:
                    demux.feed(core, training(core=core, step=step * 10).encode() + b"\n", now=1000.0 + step * pause)
        assert demux.snapshot(now=1000.0 + 20 * pause).stragglers == expected

    @pytest.mark.parametrize("first", [0, 1, 5000, 5049])
    @pytest.mark.parametrize(("missed", "expected"), [(1, ()), (5, (2,))])
    def test_lines_are_counted_by_the_steps_between_them_wherever_a_run_begins(
        self, first: int, missed: int, expected: tuple[int, ...]
    ) -> None:
        demux = Demux()
        for number in range(20):
            for core in range(3 if number < 20 - missed else 2):
                line = training(core=core, step=first // 50 * 50 + number * 50 if number else first, epoch=None)
                demux.feed(core, f"{line}\n".encode(), now=1000.0 + number)
        assert demux.snapshot(now=1020.0).stragglers == expected

    def test_bars_that_are_redrawn_at_other_steps_on_each_core_make_none_a_straggler(self) -> None:
        demux = Demux()
        for number in range(20):
            for core in range(8):
                line = training(core=core, step=37 * number + core % 3, epoch=None)
                demux.feed(core, f"{line}\n".encode(), now=1000.0 + 10 * number + core)
                assert demux.snapshot(now=1001.0 + 10 * number + core).stragglers == ()

    def test_after_a_restart_only_new_samples_are_compared(self) -> None:
        demux = Demux()
        for step in range(0, 100, 10):
            demux.feed(
                0, b"".join(training(core=core, step=step).encode() + b"\n" for core in range(3)), now=1000.0 + step
            )
        demux.restart()
        assert {row.state for row in demux.snapshot(now=1100.0).rows()} == {"training"}
        demux.feed(0, training(core=0, step=20).encode() + b"\n", now=1101.0)
        snapshot = demux.snapshot(now=1101.0)
        assert [row.state for row in snapshot.rows()] == ["training", "waiting", "waiting"]
        assert (snapshot.median_step, snapshot.stragglers) == (20, ())


class TestStates:
    def test_a_core_without_lines_for_long_is_silent(self) -> None:
        demux = Demux(thresholds={"silent": 60, "something_else": 3})
        demux.feed(0, training(core=0).encode() + b"\n", now=1000.0)
        demux.feed(0, training(core=1).encode() + b"\n", now=1050.0)
        assert [row.state for row in demux.snapshot(now=1061.0).rows()] == ["silent", "training"]

    def test_in_a_saved_log_silence_is_measured_against_the_other_cores(self) -> None:
        early, late = "2020-08-06 02:38:57 10.0.0.1 [0] ", "2020-08-06 02:48:57 10.0.0.1 [0] "
        after = "2020-08-06 05:00:00 10.0.0.1 [0] saving"
        rows = snapshot_of(early + training(core=0), late + training(core=1), after).rows()
        assert [row.state for row in rows] == ["silent", "training"]

    def test_cores_of_an_ended_worker_have_ended_but_nan_stays_visible(self) -> None:
        demux = Demux()
        demux.feed(0, f"{training(core=0)}\n{training(core=1, loss='nan')}\n".encode(), now=1000.0)
        demux.feed(1, f"{training(core=2)}\n".encode(), now=1000.0)
        demux.set_ended(0, True)
        assert [row.state for row in demux.snapshot(now=1001.0).rows()] == ["ended", "nan", "training"]
        demux.set_ended(0, False)
        assert demux.snapshot(now=1001.0).rows()[0].state == "training"

    def test_the_cores_of_a_dead_worker_add_nothing_to_the_pods_rate_until_all_have_ended(self) -> None:
        demux = Demux()
        for core, loss in ((0, "nan"), (1, "1.5"), (2, "1.5")):
            demux.feed(core, f"{training(core=core, rate='100.00', loss=loss)}\n".encode(), now=1000.0)
        rates = [demux.snapshot(now=1001.0).rate_total]
        for worker in (0, 1, 2):
            demux.set_ended(worker, True)
            rates.append(demux.snapshot(now=1001.0).rate_total)
        assert rates == [300.0, 200.0, 100.0, 300.0]

    def test_the_step_and_loss_of_the_run_are_those_of_the_cores_that_go_on(self) -> None:
        demux = Demux()
        for core, step, loss in ((0, 25, "6.0"), (1, 90, "2.0")):
            demux.feed(core, f"{training(core=core, step=step, loss=loss)}\n".encode(), now=1000.0)
        demux.set_ended(0, True)
        snapshot = demux.snapshot(now=1001.0)
        assert (snapshot.median_step, snapshot.loss_spread) == (90, (2.0, 2.0, 2.0))
        assert [row.lag for row in snapshot.rows()] == [65, 0]
        demux.set_ended(1, True)
        snapshot = demux.snapshot(now=1001.0)
        assert (snapshot.median_step, snapshot.loss_spread) == (90, (4.0, 2.0, 6.0))

    @pytest.mark.parametrize("ends", [False, True])
    def test_a_worker_that_fell_silent_makes_no_figure_of_the_run(self, ends: bool) -> None:
        demux = Demux()
        for step in range(0, 400, 20):
            for core in range(4) if step < 40 else (2, 3):
                line = training(core=core, step=step, loss=str(float(400 - step)), rate="100.00")
                demux.feed(core // 2, f"{line}\n".encode(), now=1000.0 + step)
        for worker in (0, 1) if ends else ():
            demux.set_ended(worker, True)
        snapshot = demux.snapshot(now=1400.0)
        assert (snapshot.median_step, snapshot.loss_spread) == (380, (20.0, 20.0, 20.0))
        assert [row.lag for row in snapshot.rows()] == [360, 360, 0, 0]
        assert (snapshot.rate_total, snapshot.rate_source) == (200.0, "2 of 4 cores")
        state = ["ended", "ended"] if ends else ["silent", "training"]
        assert [row.state for row in snapshot.rows()] == [state[0], state[0], state[1], state[1]]

    @pytest.mark.parametrize(
        ("now", "silent", "state"), [(1400.0, 1000, "straggler"), (1400.0, 120, "silent"), (1900.0, 120, "silent")]
    )
    def test_a_core_that_hangs_while_the_others_finish_is_behind_and_makes_no_figure_of_the_run(
        self, now: float, silent: float, state: str
    ) -> None:
        demux = Demux(thresholds={"silent": silent})
        for step in range(0, 400, 20):
            for core in range(3) if step < 40 else (1, 2):
                line = training(core=core, step=step, loss=str(float(400 - step)))
                demux.feed(core, f"{line}\n".encode(), now=1000.0 + step)
        demux.feed(1, b"Total Train Time: 0:41:25\n", now=1400.0)
        for worker in (1, 2):
            demux.set_ended(worker, True)
        snapshot = demux.snapshot(now=now)
        assert snapshot.loss_spread is not None
        assert (snapshot.median_step, snapshot.loss_spread.median) == (380, 20.0)
        assert [row.state for row in snapshot.rows()] == [state, "ended", "ended"]
        assert snapshot.straggling.tolist() == [True, False, False]

    @pytest.mark.parametrize("ends", [False, True])
    def test_a_worker_that_hangs_makes_no_figure_of_the_run_and_a_slow_one_does(self, ends: bool) -> None:
        demux = Demux()
        for step in range(60):
            for core in range(4):
                if (core == 0 and step >= 20) or (core == 1 and step % 4):
                    continue
                line = training(core=core, step=step // 4 if core == 1 else step, rate="100.00")
                demux.feed(core, f"{line}\n".encode(), now=1000.0 + step)
            snapshot = demux.snapshot(now=1000.0 + step + 0.9)
            assert (snapshot.rate_total, snapshot.going_on) == ((400.0, 4) if step < 23 else (300.0, 3)), step
        for worker in range(4) if ends else ():
            demux.set_ended(worker, True)
        snapshot = demux.snapshot(now=1065.0)
        assert (snapshot.rate_total, snapshot.rate_source) == (300.0, "3 of 4 cores")

    def test_the_jobs_last_line_ends_a_saved_log(self) -> None:
        assert only(training(), "Total Train Time: 0:41:25").state == "ended"

    def test_the_median_loss_leaves_nan_out(self) -> None:
        snapshot = snapshot_of(
            training(core=0, loss="nan"), training(core=1, loss="2.0"), training(core=2, loss="4.0")
        )
        assert snapshot.loss_spread is not None
        assert (snapshot.loss_spread.median, snapshot.nan_cores) == (3.0, (0,))
        assert snapshot.rate_total is not None
        assert math.isclose(snapshot.rate_total, 3 * 258.47)

    def test_the_loss_is_nan_where_that_of_every_core_that_goes_on_is(self) -> None:
        demux = Demux()
        for core, loss in ((0, "2.0"), (1, "nan"), (2, "nan")):
            demux.feed(core, f"{training(core=core, loss=loss)}\n".encode(), now=1000.0)
        demux.set_ended(0, True)
        spread = demux.snapshot(now=1001.0).loss_spread
        assert spread is not None
        assert all(map(math.isnan, spread))
        assert snapshot_of("no loss").loss_spread is None

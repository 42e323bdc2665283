from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.shapes import DEMUXES, cut, training
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.logs.state.recent_rates import RecentRates
from tui.logs.state.samples import Record, samples_from
from tui.logs.state.straggler_cost import straggler_costs


def pod(
    rates: list[list[float]],
    *,
    thresholds: dict[str, float] | None = None,
    missing: frozenset[tuple[int, int]] = frozenset(),
    loss: str = "6.87500",
) -> Demux:
    """Feed cores in step, one for each list of rates and a line a second, without the `missing` (step, core)."""
    demux = Demux(thresholds=thresholds)
    for step in range(max(map(len, rates))):
        for core, printed in enumerate(rates):
            if step < len(printed) and (step, core) not in missing:
                line = training(core=core, step=step, rate=f"{printed[step]:.2f}", loss=loss if core else "6.87500")
                demux.feed(core // 8, f"{line}\n".encode(), now=1000.0 + step)
    return demux


def steady(count: int, rate: float, samples: int) -> list[list[float]]:
    return [[rate] * samples for _ in range(count)]


def seen(demux: Demux, steps: int) -> Snapshot:
    return demux.snapshot(now=1000.0 + steps)


class TestASlowCoreThatKeepsStep:
    def test_is_named_with_its_pace_and_what_it_costs(self) -> None:
        snapshot = seen(pod([*steady(31, 1000, 25), [400.0] * 25]), 25)
        assert snapshot.stragglers == (31,)
        row = snapshot.row_at(31)
        assert (row.state, row.lag, row.pace) == ("straggler", 0, pytest.approx(0.4))
        (cost,) = straggler_costs(snapshot)
        assert (cost.core, cost.worker, cost.reason, cost.steps_behind) == (31, 3, "slow", 0)
        assert (cost.pace, cost.share) == (pytest.approx(0.4), pytest.approx(0.6))
        assert cost.seconds_per_step == pytest.approx(0.6), (
            "seconds that the others wait for in each second of a step"
        )

    def test_needs_twenty_samples(self) -> None:
        assert seen(pod([*steady(7, 1000, 19), [400.0] * 19]), 19).stragglers == ()
        assert seen(pod([*steady(7, 1000, 20), [400.0] * 20]), 20).stragglers == (7,)

    def test_is_slow_at_four_fifths_of_the_median_or_less(self) -> None:
        assert seen(pod([*steady(7, 100, 20), [80.0] * 20]), 20).stragglers == (7,)
        assert seen(pod([*steady(7, 100, 20), [81.0] * 20]), 20).stragglers == ()

    def test_both_thresholds_can_be_set(self) -> None:
        rates = [*steady(7, 100, 12), [60.0] * 12]
        assert seen(pod(rates, thresholds={"slow_samples": 10}), 12).stragglers == (7,)
        assert seen(pod(rates, thresholds={"slow_samples": 10, "slow_pace": 0.5}), 12).stragglers == ()

    def test_is_still_named_when_the_run_has_ended(self) -> None:
        demux = pod([*steady(7, 1000, 25), [400.0] * 25])
        demux.set_ended(0, True)
        snapshot = seen(demux, 25)
        assert snapshot.row_at(7).state == "ended"
        assert [cost.core for cost in straggler_costs(snapshot)] == [7]

    def test_of_two_cores_is_the_slower_one(self) -> None:
        assert seen(pod([[1000.0] * 25, [400.0] * 25]), 25).stragglers == (1,)

    def test_is_still_named_in_the_middle_of_a_step(self) -> None:
        rates = [*steady(7, 1000, 25), [400.0] * 25]
        assert seen(pod(rates, missing=frozenset({(24, 2), (24, 7)})), 25).stragglers == (7,)

    def test_is_still_named_during_a_pause_of_all_cores(self) -> None:
        pause = [1.0 if step == 30 else 0.5 if step == 31 else 1.0 for step in range(40)]
        rates = [[1000 * share for share in pause] for _ in range(7)] + [[400 * share for share in pause]]
        for steps in range(25, 40):
            assert seen(pod([printed[:steps] for printed in rates]), steps).stragglers == (7,)


def test_a_core_that_is_behind_stays_behind_workers_that_have_finished() -> None:
    demux = Demux()
    for core, step in ((0, 100), (1, 100), (2, 100), (3, 80)):
        lines = "".join(f"{training(core=core, step=each)}\n" for each in range(step + 1))
        demux.feed(core, lines.encode(), now=1000.0)
    lags = []
    for worker in (0, 1, 2):
        snapshot = demux.snapshot(now=1001.0)
        lags.append((snapshot.median_step, snapshot.row_at(3).lag, snapshot.stragglers))
        demux.set_ended(worker, True)
    snapshot = demux.snapshot(now=1001.0)
    assert [*lags, (snapshot.median_step, snapshot.row_at(3).lag, snapshot.stragglers)] == [(100, 20, (3,))] * 4


class TestNoCoreIsSlow:
    def test_for_noise(self) -> None:
        rng = random.Random(3)
        rates = [[rng.uniform(500, 1500) for _ in range(200)] for _ in range(16)]
        assert seen(pod(rates), 200).stragglers == ()

    def test_for_a_single_slow_sample(self) -> None:
        printed = [1000.0] * 60
        printed[50] = 1.0
        assert seen(pod([*steady(7, 1000, 60), printed]), 60).stragglers == ()

    def test_once_it_is_fast_again(self) -> None:
        assert seen(pod([*steady(7, 1000, 50), [400.0] * 49 + [1000.0]]), 50).stragglers == ()

    def test_for_a_compilation_that_took_longer(self) -> None:
        smoothed, printed = 20.0, []
        for _ in range(40):
            printed.append(smoothed)
            smoothed += 0.4 * (1000 - smoothed)
        assert seen(pod([*steady(7, 1000, 40), printed]), 40).stragglers == ()

    def test_when_most_cores_are_equally_slow(self) -> None:
        assert seen(pod([*steady(3, 1000, 30), *steady(5, 400, 30)]), 30).stragglers == ()

    def test_that_is_alone(self) -> None:
        snapshot = seen(pod(steady(1, 400, 30)), 30)
        assert (snapshot.stragglers, snapshot.row_at(0).pace) == ((), None)

    def test_because_dead_workers_were_faster(self) -> None:
        demux = pod([*steady(16, 1000, 30), *steady(8, 400, 30)])
        demux.set_ended(0, True)
        demux.set_ended(1, True)
        assert seen(demux, 30).stragglers == ()

    def test_right_after_a_restart(self) -> None:
        demux = pod([*steady(7, 1000, 30), [400.0] * 30])
        demux.restart()
        for core in range(8):
            demux.feed(0, f"{training(core=core, step=0, rate='400.00')}\n".encode(), now=1031.0)
        assert seen(demux, 31).stragglers == ()

    def test_while_some_workers_have_been_read_further_than_others(self) -> None:
        demux = pod([*steady(7, 1000, 30), [400.0] * 30])
        assert demux.snapshot(now=1030.0, partial=True).stragglers == ()

    def test_whose_loss_is_no_number_because_it_counts_as_nan(self) -> None:
        demux = pod([*steady(1, 1000, 30), *steady(7, 1000, 30)], loss="nan")
        snapshot = seen(demux, 30)
        assert (snapshot.stragglers, len(snapshot.nan_cores)) == ((), 7)


def test_a_straggler_stays_one_while_some_workers_have_been_read_further_than_others() -> None:
    demux = pod([*steady(7, 1000, 30), [400.0] * 30])
    assert seen(demux, 30).stragglers == (7,)
    assert demux.snapshot(now=1030.0, partial=True).stragglers == (7,)


def test_a_core_that_is_behind_and_slow_is_called_behind() -> None:
    demux = Demux()
    for step in range(90):
        for core in range(4):
            if core != 3 or step % 3 == 0:
                own, rate = (step // 3, "40.00") if core == 3 else (step, "120.00")
                demux.feed(0, f"{training(core=core, step=own, rate=rate)}\n".encode(), now=1000.0 + step)
    (cost,) = straggler_costs(seen(demux, 90))
    assert (cost.core, cost.reason, cost.steps_behind) == (3, "behind", cost.lag)


def test_a_core_at_a_third_of_the_pace_of_the_only_other_one_is_reported_so() -> None:
    snapshot = seen(pod([[300.0] * 30, [100.0] * 30]), 30)
    assert [row.pace for row in snapshot.rows()] == [1.0, pytest.approx(1 / 3)]
    (cost,) = straggler_costs(snapshot)
    assert (cost.core, cost.pace, cost.share) == (1, pytest.approx(1 / 3), pytest.approx(2 / 3))


@given(
    st.lists(st.lists(st.sampled_from([400.0, 900.0, 1000.0]), min_size=25, max_size=25), min_size=2, max_size=9),
    st.lists(st.integers(0, 30_000), max_size=12),
    st.booleans(),
)
def test_pace_and_slowness_do_not_depend_on_how_the_bytes_are_cut(
    rates: list[list[float]], places: list[int], history: bool
) -> None:
    lines = [training(core=core, step=step, rate=f"{printed[step]:.2f}") for step in range(25) for core, printed in
             enumerate(rates)]  # fmt: skip
    data = "".join(f"{line}\n" for line in lines).encode()
    snapshots = []
    for fast in (True, False):
        demux = DEMUXES[fast](history=history)
        for chunk in cut(data, places):
            demux.feed(0, chunk)
        snapshots.append(demux.snapshot())
    one, other = snapshots
    assert one.pace.tolist() == other.pace.tolist()
    assert one.slow.tolist() == other.slow.tolist()
    expected = np.array(rates)
    shares = (expected / np.sort(expected, axis=0)[len(rates) // 2])[:, -20:]
    assert one.slow.tolist() == (shares <= 0.8).all(axis=1).tolist()
    assert np.allclose(one.pace, np.median(shares[:, -5:], axis=1), rtol=1e-5)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=200), st.integers(1, 8), st.integers(1, 60)
)
def test_recent_rates_are_the_last_of_each_row(printed: list[tuple[int, int]], depth: int, size: int) -> None:
    recent = RecentRates(depth)
    for start in range(0, len(printed), size):
        part = printed[start : start + size]
        records: list[Record] = [
            (0, row, 0, 1, 1, 1.0, float(rate), 1.0, 7, b"", 0.0, 0, 0.0, 1, 0) for row, rate in part
        ]
        recent.take(np.array([row for row, _ in part]), samples_from(records))
    newest = recent.newest(np.arange(4), depth)
    for row in range(4):
        own = [float(rate) for each, rate in printed if each == row][::-1][:depth]
        assert newest[: len(own), row].tolist() == own
        assert np.isnan(newest[len(own) :, row]).all()

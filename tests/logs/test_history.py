from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tui.logs.history.grid import BUCKETS
from tui.logs.history.grouping import MOST_ROWS, RowGroups
from tui.logs.history.history import History


def filled(
    rows: list[int], losses: list[float], cuts: list[int] | None = None, times: list[float] | None = None
) -> History:
    """Return a history of these samples, added in batches cut at `cuts`; one sample a second by default."""
    history = History(steps=True)
    ends = sorted({0, len(rows), *(cuts or [])})
    for start, end in itertools.pairwise(ends):
        part = np.array(rows[start:end], np.int64)
        loss = np.array(losses[start:end], np.float64)
        numbers = np.arange(start, end)
        epochs = np.ones(end - start, np.int64)
        history.add(
            RowGroups.of(part),
            loss,
            loss * 10,
            epochs,
            numbers,
            np.array(times[start:end]) if times else 1.0 * numbers,
        )
    return history


class TestTrails:
    def test_a_short_run_is_kept_whole(self) -> None:
        history = filled([0, 1, 0], [1.0, 5.0, 2.0])
        assert history.losses(0).tolist() == [1.0, 2.0]
        assert history.rates(1).tolist() == [50.0]
        assert history.losses(99).tolist() == []

    def test_a_long_run_keeps_the_first_and_the_last(self) -> None:
        history = filled([0] * 9003, [9.0, *[1.0] * 9001, 0.5])
        trail = history.losses(0)
        assert len(trail) <= BUCKETS
        assert (trail[0], trail[1], trail[-1]) == (9.0, 1.0, 0.5)

    def test_a_restart_before_the_first_sample_leaves_no_time_of_a_restart(self) -> None:
        history = filled([], [])
        history.restart()
        assert history.restarted == -np.inf

    def test_the_last_possible_row_is_kept_like_the_first(self) -> None:
        last = MOST_ROWS - 1
        history = filled([last, 3, last, 3] * 50, [2.0, 1.0, 4.0, 3.0] * 50)
        assert history.losses(last).tolist() == [2.0, *[4.0] * 49]
        assert history.pod(np.array([3, 4, last])).loss_median[-1] == 3.5

    @example([(1, 0.0), (0, -1.0)], [1], "disorder")
    @example([(0, 0.0), (2, 3.0), (0, -1.0)], [2], "disorder")
    @given(
        st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5, width=32)), min_size=1, max_size=400),
        st.lists(st.integers(0, 400), max_size=6),
        st.sampled_from(["seconds", "days", "unknown", "at once", "disorder", "late", "partly"]),
    )
    def test_batches_of_any_size_leave_the_same_history(
        self, samples: list[tuple[int, float]], cuts: list[int], kind: str
    ) -> None:
        rows, losses = [row for row, _ in samples], [loss for _, loss in samples]
        nan = float("nan")
        times = {
            "seconds": [float(n) for n in range(len(rows))],
            "days": [1e5 * n**2 for n in range(len(rows))],
            "unknown": [nan] * len(rows),
            "at once": [5.0] * len(rows),
            "disorder": [1000.0 + loss * 7 for loss in losses],
            "late": [nan if n < 50 else 1.0 * n for n in range(len(rows))],
            "partly": [5.0 if n < 99 else nan if n % 3 else 1.0 * n for n in range(len(rows))],
        }[kind]
        whole = filled(rows, losses, times=times)
        parts = filled(rows, losses, [min(place, len(rows)) for place in cuts], times)
        for row in range(4):
            for name in ("epoch", "step", "time", "loss", "rate"):
                found, wanted = (getattr(each.curve(row), name) for each in (parts, whole))
                assert np.array_equal(found, wanted, equal_nan=True), name
            assert np.array_equal(parts.losses(row), whole.losses(row), equal_nan=True)
        every = np.arange(4)
        for name in ("time", "step", "epoch", "loss_median", "loss_min", "loss_max", "rate_total"):
            found, wanted = (getattr(each.pod(every), name) for each in (parts, whole))
            assert np.array_equal(found, wanted, equal_nan=True), name
        assert parts.interval() == whole.interval() or whole.interval() != whole.interval()


class TestThePod:
    def test_median_and_sum_over_the_cores(self) -> None:
        pod = filled([0, 1, 2, 0, 1, 2], [1.0, 2.0, 9.0, 4.0, 5.0, np.nan]).pod(np.arange(3))
        assert pod.loss_median.tolist() == [1.0, 1.5, 2.0, 4.0, 5.0, 4.5]
        assert (pod.loss_min.tolist(), pod.loss_max.tolist()) == ([1, 1, 1, 2, 4, 4], [1, 2, 9, 9, 9, 5])
        assert (pod.step.tolist(), pod.time.tolist()) == (list(range(6)), [float(n) for n in range(6)])

    def test_the_pod_has_no_rate_before_all_cores_have_one(self) -> None:
        pod = filled([0, 1, 2, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0]).pod(np.arange(3))
        assert np.isnan(pod.rate_total).tolist() == [True, True, False, False, False]
        assert pod.rate_total[2:].tolist() == [60.0, 90.0, 120.0]

    def test_a_core_that_ended_long_ago_does_not_delay_the_pods_rate(self) -> None:
        rows = [0, 1, 0, 1] + [0] * 20
        pod = filled(rows, [1.0] * len(rows)).pod(np.arange(2))
        assert not np.isnan(pod.rate_total[1:]).any()
        assert pod.rate_total[-1] == 10.0

    def test_a_core_that_ended_long_ago_is_in_no_later_median(self) -> None:
        rows = [0, 1, 0, 1] + [0] * 20
        losses = [9.0 if row else 1.0 for row in rows]
        history = filled(rows, losses)
        pod = history.pod(np.arange(2))
        assert (pod.loss_median[3], pod.loss_max[3]) == (5.0, 9.0)
        assert (pod.loss_median[-1], pod.loss_min[-1], pod.loss_max[-1]) == (1.0, 1.0, 1.0)
        medians = history.loss_medians(np.arange(2))
        assert medians[~np.isnan(medians)][-1] == 1.0

    def test_no_cores_make_an_empty_series(self) -> None:
        assert len(History().pod(np.zeros(0, np.int64)).time) == 0

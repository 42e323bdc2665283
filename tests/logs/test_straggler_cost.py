from __future__ import annotations

import math

import pytest

from tests.logs.shapes import training
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.logs.state.straggler_cost import seconds_per_step, straggler_costs


def gang(*, slow_every: int = 1, slow_rate: str = "100.00", steps: int = 40, hiccup: int | None = None) -> Snapshot:
    """Return a snapshot of four cores with a line every second and step; core 2 prints every `slow_every` steps."""
    demux = Demux()
    for step in range(1, steps):
        for core in range(4):
            if core == 2 and step % slow_every:
                continue
            rate = slow_rate if core == 2 else ("1.00" if core == 1 and step == hiccup else "100.00")
            own = step // slow_every if core == 2 else step
            demux.feed(0, (training(core=core, step=own, rate=rate) + "\n").encode(), now=1000.0 + step)
    return demux.snapshot(now=1000.0 + steps)


def test_a_gang_in_step_has_no_stragglers() -> None:
    assert straggler_costs(gang()) == ()


def test_a_straggler_costs_what_the_others_wait_for_it() -> None:
    (cost,) = straggler_costs(gang(slow_every=2, slow_rate="50.00"))
    assert (cost.core, cost.worker) == (2, 0)
    assert cost.pace == pytest.approx(0.5)
    assert cost.share == pytest.approx(0.5)
    assert cost.seconds_per_step == pytest.approx(1.0, rel=0.1)


def test_with_equal_rates_the_pace_comes_from_the_lines_times() -> None:
    (cost,) = straggler_costs(gang(slow_every=4))
    assert cost.pace == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("rate", ["97.00", "103.00"])
def test_the_pace_of_a_core_that_hangs_comes_from_its_lines_whatever_its_last_rate(rate: str) -> None:
    demux = Demux()
    for step in range(80):
        for core in range(4 if step < 40 else 3):
            own = rate if core == 3 else "100.00"
            demux.feed(core, (training(core=core, step=step, rate=own) + "\n").encode(), now=1000.0 + step)
    (cost,) = straggler_costs(demux.snapshot(now=1080.0))
    assert (cost.core, cost.lag) == (3, 40)
    assert cost.pace == pytest.approx(0.5)


def test_a_core_that_has_just_moved_to_another_worker_is_not_slow() -> None:
    demux = Demux()
    for step in range(0, 1000, 10):
        for core in range(4):
            demux.feed(core // 2, (training(core=core, step=step) + "\n").encode(), now=1000.0 + step)
    demux.feed(1, (training(core=0, step=0) + "\n").encode(), now=2000.0)
    (cost,) = straggler_costs(demux.snapshot(now=2001.0))
    assert (cost.core, cost.worker, cost.lag) == (0, 1, 990)
    assert (cost.pace, cost.share, cost.seconds_per_step) == (None, None, None)


def test_one_slow_sample_is_no_pace() -> None:
    snapshot = gang(slow_every=2, slow_rate="50.00", hiccup=39)
    (cost,) = straggler_costs(snapshot)
    assert cost.core == 2
    assert cost.pace == pytest.approx(0.5)


def test_the_time_of_a_step_is_right_when_its_lines_arrive_one_after_another() -> None:
    demux = Demux()
    assert seconds_per_step(demux.snapshot(now=0.0)) is None
    for step in range(12):
        for core in range(8):
            line = training(core=core, step=step) + "\n"
            demux.feed(0, line.encode(), now=1000.0 + 2.0 * step + 0.1 * core)
    assert seconds_per_step(demux.snapshot(now=1030.0)) == pytest.approx(2.0, rel=0.1)


def test_the_pause_of_a_restart_is_no_part_of_a_step() -> None:
    demux = Demux()
    for step in range(20):
        if step == 10:
            demux.restart()
        line = training(core=0, step=step) + "\n"
        demux.feed(0, line.encode(), now=1000.0 + 0.5 * step + (60.0 if step >= 10 else 0.0))
    assert seconds_per_step(demux.snapshot(now=1070.0)) == pytest.approx(0.5, rel=0.1)


def test_the_pods_seconds_per_step_come_from_its_lines_times() -> None:
    assert seconds_per_step(gang()) == pytest.approx(1.0)
    assert seconds_per_step(Demux().snapshot()) is None


@pytest.mark.parametrize("epoch", [1, None])
def test_the_time_of_a_step_spans_no_two_epochs(epoch: int | None) -> None:
    demux = Demux()
    for number in range(50):
        line = training(step=number % 12, epoch=epoch and epoch + number // 12)
        demux.feed(0, f"{line}\n".encode(), now=1000.0 + 3 * number)
    assert seconds_per_step(demux.snapshot(now=1150.0)) is None, "the newest epoch has two lines"
    for step in (2, 3, 4):
        demux.feed(0, f"{training(step=step, epoch=epoch and 5)}\n".encode(), now=1144.0 + 3 * step)
    assert seconds_per_step(demux.snapshot(now=1160.0)) == pytest.approx(3.0)


def test_the_document_is_plain_numbers() -> None:
    (cost,) = straggler_costs(gang(slow_every=2, slow_rate="50.00"))
    document = cost.to_json()
    assert (document["reason"], document["steps_behind"]) == ("behind", document["lag"])
    assert set(document) == {
        "core", "worker", "address", "lag", "reason", "steps_behind", "pace", "share", "seconds_per_step",
    }  # fmt: skip
    numbers = [value for name, value in document.items() if name != "reason"]
    assert all(value is None or isinstance(value, int) or math.isfinite(value) for value in numbers)


def test_a_job_that_prints_rarely_is_not_silent() -> None:
    demux = Demux()
    for step in range(8):
        demux.feed(0, (training(step=step) + "\n").encode(), now=1000.0 + 600 * step)
    newest = 1000.0 + 600 * 7
    assert [str(row.state) for row in demux.snapshot(now=newest + 900).rows()] == ["training"]
    assert [str(row.state) for row in demux.snapshot(now=newest + 1900).rows()] == ["silent"]

from __future__ import annotations

import pytest

from tests.logs.shapes import training
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.logs.state.missing_cores import missing_cores


def pod(cores: dict[int, list[int]], lines: int = 10) -> Snapshot:
    """Workers with the cores whose lines they print."""
    demux = Demux()
    for step in range(lines):
        for worker, numbers in cores.items():
            for core in numbers:
                demux.feed(worker, f"{training(core=core, step=step)}\n".encode(), now=1000.0 + step)
    return demux.snapshot(now=1000.0 + lines)


def eight(workers: int, without: frozenset[int] = frozenset()) -> dict[int, list[int]]:
    return {worker: [core for core in range(8 * worker, 8 * worker + 8) if core not in without] for worker in
            range(workers)}  # fmt: skip


def missing(snapshot: Snapshot, expected: int | None, workers: int, *, is_over: bool = False) -> str:
    return missing_cores(snapshot, expected, workers, is_over=is_over).sentence


def test_cores_above_the_highest_one_seen_are_named_with_their_worker() -> None:
    assert missing(pod(eight(7)), 64, 8) == "no line from cores 56-63 (worker 7)"
    found = missing_cores(pod(eight(7)), 64, 8, is_over=True)
    assert (found.cores, found.workers) == (tuple(range(56, 64)), (7,))


def test_of_a_worker_that_tells_of_some_cores_the_others_are_named() -> None:
    assert missing(pod(eight(2, frozenset({3}))), 16, 2) == "no line from core 3 (worker 0)"
    assert missing(pod(eight(4, frozenset({3, 30, 31}))), 32, 4) == "no line from cores 3,30-31 (workers 0,3)"


def test_whose_they_are_is_not_said_where_nothing_tells() -> None:
    uneven = {0: list(range(9)), 1: list(range(9, 15))}
    assert missing(pod(uneven), 16, 2) == "no line from core 15"


def test_all_there_is_nothing_missing() -> None:
    assert missing(pod(eight(8)), 64, 8) == ""
    assert missing(pod(eight(8)), None, 8) == ""


@pytest.mark.parametrize(
    "cores",
    [
        {worker: [worker] for worker in range(8)},
        {0: [0]},
        {worker: [0] for worker in range(8)},
        {0: list(range(8)), 1: list(range(8))},
        {0: [0, 1, 2, 99]},
    ],
    ids=["a process for each worker", "one for all", "all of one number", "numbers of a worker", "other numbers"],
)
def test_numbers_that_are_not_the_slices_cores_leave_nothing_missing(cores: dict[int, list[int]]) -> None:
    assert missing(pod(cores), 64, 8, is_over=True) == ""


def test_lines_without_core_numbers_leave_nothing_missing() -> None:
    demux = Demux()
    for worker in range(3):
        for step in range(9):
            demux.feed(worker, b"step:  %d  loss: 1.0  tps: 10\n" % step, now=1000.0 + step)
    assert missing(demux.snapshot(now=1010.0), 32, 4) == ""


def test_in_the_first_lines_nothing_is_missing_as_yet_but_at_the_end_it_is() -> None:
    snapshot = pod(eight(7), lines=2)
    assert missing(snapshot, 64, 8) == ""
    assert missing(snapshot, 64, 8, is_over=True) == "no line from cores 56-63 (worker 7)"
    assert missing(Demux().snapshot(), 64, 8, is_over=True) == ""


def test_one_core_a_worker_is_missed_too() -> None:
    assert missing(pod({worker: [worker] for worker in range(3)}), 4, 4) == "no line from core 3 (worker 3)"

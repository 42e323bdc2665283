from __future__ import annotations

import pytest

from tests.logs.shapes import training
from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.logs.state.missing_cores import missing_cores


def pod(cores: dict[int, list[int]], lines: int = 10) -> Snapshot:
    """Return a snapshot of workers that print lines of the given cores."""
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


def test_the_missing_cores_of_a_worker_with_lines_of_others_are_named() -> None:
    assert missing(pod(eight(2, frozenset({3}))), 16, 2) == "no line from core 3 (worker 0)"
    assert missing(pod(eight(4, frozenset({3, 30, 31}))), 32, 4) == "no line from cores 3,30-31 (workers 0,3)"


def test_the_worker_of_missing_cores_is_not_named_when_unknown() -> None:
    uneven = {0: list(range(9)), 1: list(range(9, 15))}
    assert missing(pod(uneven), 16, 2) == "no line from core 15"


def test_nothing_is_missing_when_all_cores_print() -> None:
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
def test_nothing_is_missing_when_the_numbers_are_not_the_slices_cores(cores: dict[int, list[int]]) -> None:
    assert missing(pod(cores), 64, 8, is_over=True) == ""


def test_nothing_is_missing_when_lines_have_no_core_numbers() -> None:
    demux = Demux()
    for worker in range(3):
        for step in range(9):
            demux.feed(worker, b"step:  %d  loss: 1.0  tps: 10\n" % step, now=1000.0 + step)
    assert missing(demux.snapshot(now=1010.0), 32, 4) == ""


def test_cores_are_not_missing_during_the_first_lines_but_at_the_end() -> None:
    snapshot = pod(eight(7), lines=2)
    assert missing(snapshot, 64, 8) == ""
    assert missing(snapshot, 64, 8, is_over=True) == "no line from cores 56-63 (worker 7)"
    assert missing(Demux().snapshot(), 64, 8, is_over=True) == ""


def test_a_missing_core_is_found_with_one_core_per_worker() -> None:
    assert missing(pod({worker: [worker] for worker in range(3)}), 4, 4) == "no line from core 3 (worker 3)"

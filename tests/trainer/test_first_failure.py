"""Tests of the record of the first failure in a real store, also when rank 0 has ended."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timing

pytest.importorskip("torch", reason="torch is not installed")

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.distributed import failures
from trainer.distributed.failures import Failure, FailureRecord, format_ranks

# Ranks are forked from a clean process: a fork of a process with the threads of other tests can abort in PyTorch.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch.distributed", failures.__name__])
HOST = "127.0.0.1"


def store_at(port: int, *, rank: int) -> TCPStore:
    return TCPStore(HOST, port, None, is_master=rank == 0, wait_for_workers=False, timeout=timedelta(seconds=60))


def take_part(rank: int, port: int, entered: int, timeouts: tuple[float, float], pipe: Any) -> None:
    """Run a rank: send its store's port, then execute the actions that the pipe requests and send their results."""
    failures.ACK_TIMEOUT_S, failures.ANSWER_TIMEOUT_S = timeouts
    store = store_at(port, rank=rank)
    record = FailureRecord(store, rank, 4)
    record.entered = entered
    pipe.send(store.port)
    actions = {
        "call": lambda: record.find(lambda: False),
        "report": record.report_error,
        "leave": record.shutdown,
    }
    while True:
        pipe.send(actions[pipe.recv()]())


class Rank:
    """One rank in a process of its own, which a test can freeze and kill."""

    def __init__(self, rank: int, port: int, entered: int) -> None:
        self._pipe, child_end = CONTEXT.Pipe()
        timeouts = (failures.ACK_TIMEOUT_S, failures.ANSWER_TIMEOUT_S)
        self._process = CONTEXT.Process(target=take_part, args=(rank, port, entered, timeouts, child_end))
        self._process.start()
        self.port: int = self._pipe.recv()

    def call(self) -> None:
        self._pipe.send("call")

    def found(self) -> Failure:
        found: Failure = self._pipe.recv()
        return found

    def reports(self) -> bool:
        self._pipe.send("report")
        reports: bool = self._pipe.recv()
        return reports

    def shutdown(self) -> None:
        self._pipe.send("leave")

    def has_left(self, within: float) -> bool:
        return self._pipe.poll(within)

    def signal(self, number: signal.Signals) -> None:
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, number)
        while number == signal.SIGSTOP and any(state != "T" for state in _states(pid)):
            time.sleep(0.01)  # its threads stop one by one; the test's timeout bounds this loop

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _states(pid: int) -> list[str]:
    """Return the state letter of each of a process's threads."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [stat.rpartition(")")[2].split()[0] for stat in stats]


Start = Callable[..., list[Rank]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts four ranks, each with the number of collectives it has begun."""
    ranks: list[Rank] = []

    def begin(*entered: int) -> list[Rank]:
        for rank in range(4):
            ranks.append(Rank(rank, ranks[0].port if ranks else 0, entered[rank]))
        return ranks

    yield begin
    for each in ranks:
        each.end()


def test_all_other_ranks_learn_that_frozen_and_dead_ranks_are_silent(start: Start) -> None:
    first, frozen, dead, last = start(7, 6, 7, 7)
    frozen.signal(signal.SIGSTOP)
    dead.end()
    for rank in (last, first):
        rank.call()
    assert last.found() == first.found() == Failure(silent=(1, 2))


def test_a_rank_that_answers_and_has_begun_fewer_collectives_is_behind(start: Start) -> None:
    ranks = start(7, 7, 6, 7)
    ranks[3].call()
    assert ranks[3].found() == Failure(behind=(2,))


def test_if_all_ranks_answer_and_are_equally_far_none_is_named(start: Start) -> None:
    ranks = start(7, 7, 7, 7)
    ranks[0].call()
    assert ranks[0].found() == Failure()


@pytest.fixture
def short_answer_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time to wait for an answer in tests where no rank is left to give one."""
    monkeypatch.setattr("trainer.distributed.failures.ANSWER_TIMEOUT_S", 1.0)


@pytest.mark.usefixtures("short_answer_timeout")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_rank_0_that_does_not_answer_is_named(start: Start, number: signal.Signals) -> None:
    first, *others = start(7, 7, 7, 7)
    first.signal(number)
    for rank in others:
        rank.call()
    assert [rank.found() for rank in others] == [Failure(silent=(0,))] * 3


def test_a_late_caller_knows_which_rank_ended_rank_0(start: Start) -> None:
    first, dead, late, _ = start(7, 7, 7, 7)
    dead.end()
    first.call()
    assert first.found() == Failure(silent=(1,))
    time.sleep(0.1)
    first.end()
    late.call()
    assert late.found() == Failure(silent=(1,))


@pytest.fixture
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the timeouts for ranks that start late on a loaded machine."""
    for name in ("ACK_TIMEOUT_S", "ANSWER_TIMEOUT_S"):
        monkeypatch.setattr(f"trainer.distributed.failures.{name}", 60.0)


@pytest.mark.usefixtures("long_timeouts")
def test_one_of_the_ending_ranks_reports_why_and_all_others_learn_which(start: Start) -> None:
    first, reporter, late, frozen = start(7, 7, 6, 7)
    frozen.signal(signal.SIGSTOP)
    assert reporter.reports()
    assert not first.reports()
    late.call()
    assert late.found() == Failure(reporting=(1,))


@pytest.mark.usefixtures("long_timeouts")
def test_rank_0_ends_when_all_know_which_rank_reports(start: Start) -> None:
    first, frozen, *late = start(7, 7, 7, 7)
    frozen.signal(signal.SIGSTOP)
    assert first.reports()
    first.shutdown()
    assert not first.has_left(within=1)
    frozen.signal(signal.SIGCONT)
    assert first.has_left(within=30)
    first.end()
    for rank in (frozen, *late):
        assert not rank.reports()
        rank.call()
        assert rank.found() == Failure(reporting=(0,))


def test_rank_0_waits_for_a_frozen_rank_for_a_limited_time(start: Start) -> None:
    first, frozen, *_ = start(7, 7, 7, 7)
    frozen.signal(signal.SIGSTOP)
    assert first.reports()
    first.shutdown()
    assert first.has_left(within=10)


@pytest.mark.usefixtures("short_answer_timeout")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_without_rank_0_an_error_is_reported_twice_rather_than_never(start: Start, number: signal.Signals) -> None:
    first, *others = start(7, 7, 7, 7)
    first.signal(number)
    for rank in others[:2]:
        assert rank.reports()
        rank.shutdown()
        assert rank.has_left(within=10)


def test_ranks_are_named_with_their_workers() -> None:
    assert format_ranks((5,), cores=4) == "Rank 5 (worker 1, core 1)"
    assert format_ranks((4, 5, 6, 7), cores=4) == "Ranks 4, 5, 6 and 7 (worker 1)"
    assert format_ranks((1, 4), cores=4) == "Ranks 1 and 4 (workers 0 and 1)"

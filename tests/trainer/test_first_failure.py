"""Tests of the record of the first failure in a real store, also when rank 0 has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.timing

pytest.importorskip("torch", reason="torch is not installed")

from tests.trainer.recording_ranks import Rank
from trainer.distributed.failures import Failure, format_ranks

Start = Callable[..., list[Rank]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts four ranks, each with the number of collectives it has begun."""
    ranks: list[Rank] = []

    def begin(*entered: int) -> list[Rank]:
        ranks.append(Rank(0, 0, entered[0]))
        port = ranks[0].await_port()
        ranks.extend(Rank(rank, port, entered[rank]) for rank in (1, 2, 3))
        for rank in ranks[1:]:
            rank.await_port()
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
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeouts in tests where no rank is left to answer."""
    for name in ("ACK_TIMEOUT_S", "ANSWER_TIMEOUT_S"):
        monkeypatch.setattr(f"trainer.distributed.failures.{name}", 1.0)


@pytest.mark.usefixtures("short_timeouts")
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
    reporter.report()
    assert reporter.reports()
    first.report()
    assert not first.reports()
    late.call()
    assert late.found() == Failure(reporting=(1,))


@pytest.mark.usefixtures("long_timeouts")
def test_rank_0_ends_when_all_know_which_rank_reports(start: Start) -> None:
    first, frozen, *late = start(7, 7, 7, 7)
    frozen.signal(signal.SIGSTOP)
    first.report()
    assert first.reports()
    first.shutdown()
    assert not first.has_left(within=1)
    frozen.signal(signal.SIGCONT)
    assert first.has_left(within=30)
    first.end()
    for rank in (frozen, *late):
        rank.report()
        assert not rank.reports()
        rank.call()
        assert rank.found() == Failure(reporting=(0,))


@pytest.mark.usefixtures("short_timeouts")
def test_rank_0_waits_for_a_frozen_rank_for_a_limited_time(start: Start) -> None:
    first, frozen, *_ = start(7, 7, 7, 7)
    frozen.signal(signal.SIGSTOP)
    first.report()
    assert first.reports()
    first.shutdown()
    assert first.has_left(within=10)


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_without_rank_0_an_error_is_reported_twice_rather_than_never(start: Start, number: signal.Signals) -> None:
    first, *others = start(7, 7, 7, 7)
    first.signal(number)
    for rank in others[:2]:
        rank.report()
    assert [rank.reports() for rank in others[:2]] == [True, True]
    for rank in others[:2]:
        rank.shutdown()
    assert all(rank.has_left(within=10) for rank in others[:2])


def test_ranks_are_named_with_their_workers() -> None:
    assert format_ranks((5,), cores=4) == "Rank 5 (worker 1, core 1)"
    assert format_ranks((4, 5, 6, 7), cores=4) == "Ranks 4, 5, 6 and 7 (worker 1)"
    assert format_ranks((1, 4), cores=4) == "Ranks 1 and 4 (workers 0 and 1)"

"""How long an unreachable worker is waited for, depending on the state of the others."""

from __future__ import annotations

import asyncio
import math

import pytest

from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts

pytestmark = [pytest.mark.timing, pytest.mark.py310]

PATIENCE = KeeperTimeouts(lost_after=900.0, gone_after=300.0)
SOON = 60.0


def with_the_first_of_two_lost(timeouts: KeeperTimeouts = PATIENCE) -> Reachability:
    """Return the reachability of two workers of which the first was lost."""
    reachability = Reachability(timeouts)
    reachability.mark_reachable(0)
    reachability.mark_reachable(1)
    reachability.mark_unreachable(0)
    return reachability


async def settle() -> None:
    """Let everything that was woken run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_worker_is_waited_for_as_long_as_anothers_session_is_open() -> None:
    reachability = with_the_first_of_two_lost()
    assert reachability.patience_for(0) == math.inf


async def test_a_first_login_that_has_not_answered_yet_is_no_sign_of_life() -> None:
    reachability = Reachability(PATIENCE)
    reachability.mark_reachable(0)
    reachability.mark_unreachable(0)
    assert reachability.patience_for(0) == PATIENCE.lost_after
    reachability.mark_unreachable(1)
    assert reachability.patience_for(1) == PATIENCE.lost_after


async def test_workers_lost_together_are_waited_for_longer_than_one_lost_alone() -> None:
    together = Reachability(PATIENCE)
    alone = Reachability(PATIENCE)
    for reachability in (together, alone):
        reachability.mark_reachable(0)
        reachability.mark_reachable(1)
        reachability.mark_unreachable(0)
        reachability.mark_reachable(1)
    together.mark_unreachable(1)
    alone.mark_ended(1)
    assert together.patience_for(0) == PATIENCE.lost_after
    assert alone.patience_for(0) == PATIENCE.gone_after


async def test_workers_of_a_run_that_was_over_are_not_waited_for_long() -> None:
    reachability = with_the_first_of_two_lost()
    reachability.limit_s = 5.0
    assert reachability.patience_for(0) == 5.0


async def test_a_pause_ends_as_soon_as_the_patience_is_used_up_and_one_more_attempt_follows() -> None:
    reachability = with_the_first_of_two_lost(KeeperTimeouts(lost_after=0.2, gone_after=0.2))
    pausing = asyncio.ensure_future(reachability.wait_before_retry(0, 10_000))
    await asyncio.sleep(0)
    assert not pausing.done()
    reachability.mark_unreachable(1)
    assert await asyncio.wait_for(pausing, SOON) is True
    assert await reachability.wait_before_retry(0, 10_000) is False


async def test_a_worker_that_comes_back_makes_the_others_retry_at_once() -> None:
    reachability = Reachability(PATIENCE)
    for worker in (0, 1, 2):
        reachability.mark_reachable(worker)
        reachability.mark_unreachable(worker)
    pausing = [asyncio.ensure_future(reachability.wait_before_retry(worker, 10_000)) for worker in (0, 1)]
    await asyncio.sleep(0)
    reachability.mark_reachable(2)
    assert await asyncio.wait_for(asyncio.gather(*pausing), SOON) == [True, True]


async def test_a_loss_or_a_return_wakes_no_lost_worker_at_once_while_another_is_live() -> None:
    asked: list[int] = []

    class Counting(Reachability):
        def patience_for(self, worker: int) -> float:
            asked.append(worker)
            return super().patience_for(worker)

    reachability = Counting(PATIENCE)
    for worker in range(4):
        reachability.mark_reachable(worker)
    reachability.mark_unreachable(0)
    pausing = asyncio.ensure_future(reachability.wait_before_retry(0, 10_000))
    await settle()
    for worker in (1, 2):
        reachability.mark_unreachable(worker)
        await settle()
    reachability.mark_reachable(1)
    await settle()
    assert asked == [0, 0]
    pausing.cancel()


async def test_no_worker_is_waited_for_while_the_slice_is_known_to_be_gone() -> None:
    reachability = with_the_first_of_two_lost()
    pausing = asyncio.ensure_future(reachability.wait_before_retry(0, 10_000))
    await asyncio.sleep(0)
    reachability.give_up("preempted")
    assert await asyncio.wait_for(pausing, SOON) is True
    assert await reachability.wait_before_retry(0, 10_000) is False
    reachability.give_up(None)
    assert reachability.patience_for(0) == math.inf


async def test_unreachable_workers_are_listed_in_the_order_of_their_loss() -> None:
    reachability = Reachability(PATIENCE)
    for worker in (2, 0, 1):
        assert reachability.mark_unreachable(worker)
    assert not reachability.mark_unreachable(0)
    reachability.mark_reachable(0)
    reachability.mark_ended(1)
    assert reachability.all_unreachable == [2, 1]
    assert reachability.unreachable == [2]

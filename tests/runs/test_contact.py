"""How long a worker may stay out of reach, by what is known of the others."""

from __future__ import annotations

import asyncio
import math

from tui.runs.health.reachability import Contact
from tui.runs.keeper.failure_rules import Patience

PATIENCE = Patience(lost_after=900.0, gone_after=300.0)
SOON = 60.0


async def test_a_worker_is_waited_for_as_long_as_anothers_session_is_open() -> None:
    contact = Contact(PATIENCE)
    contact.heard(0)
    contact.heard(1)
    contact.lost(0)
    assert contact.allowed(0) == math.inf


async def test_a_first_login_that_has_not_answered_yet_is_no_sign_of_life() -> None:
    contact = Contact(PATIENCE)
    contact.heard(0)
    contact.lost(0)
    assert contact.allowed(0) == PATIENCE.lost_after
    contact.lost(1)
    assert contact.allowed(1) == PATIENCE.lost_after


async def test_workers_lost_together_are_waited_for_longer_than_one_lost_alone() -> None:
    together = Contact(PATIENCE)
    alone = Contact(PATIENCE)
    for contact in (together, alone):
        contact.heard(0)
        contact.heard(1)
        contact.lost(0)
        contact.heard(1)
    together.lost(1)
    alone.ended(1)
    assert together.allowed(0) == PATIENCE.lost_after
    assert alone.allowed(0) == PATIENCE.gone_after


async def test_a_run_that_was_over_is_not_waited_for_long() -> None:
    contact = Contact(PATIENCE)
    contact.at_most = 5.0
    contact.heard(0)
    contact.heard(1)
    contact.lost(0)
    assert contact.allowed(0) == 5.0


async def test_a_pause_ends_as_soon_as_patience_does_and_is_followed_by_one_more_try() -> None:
    contact = Contact(Patience(lost_after=0.2, gone_after=0.2))
    contact.heard(0)
    contact.heard(1)
    contact.lost(0)
    pausing = asyncio.ensure_future(contact.pause(0, 10_000))
    await asyncio.sleep(0)
    assert not pausing.done()
    contact.lost(1)
    assert await asyncio.wait_for(pausing, SOON) is True
    assert await contact.pause(0, 10_000) is False


async def test_a_worker_that_comes_back_sends_the_others_to_try_at_once() -> None:
    contact = Contact(PATIENCE)
    for worker in (0, 1, 2):
        contact.heard(worker)
        contact.lost(worker)
    pausing = [asyncio.ensure_future(contact.pause(worker, 10_000)) for worker in (0, 1)]
    await asyncio.sleep(0)
    contact.heard(2)
    assert await asyncio.wait_for(asyncio.gather(*pausing), SOON) == [True, True]


async def test_a_slice_known_to_be_gone_ends_all_patience_until_it_is_not() -> None:
    contact = Contact(PATIENCE)
    contact.heard(0)
    contact.heard(1)
    contact.lost(0)
    pausing = asyncio.ensure_future(contact.pause(0, 10_000))
    await asyncio.sleep(0)
    contact.give_up("preempted")
    assert await asyncio.wait_for(pausing, SOON) is True
    assert await contact.pause(0, 10_000) is False
    contact.give_up(None)
    assert contact.allowed(0) == math.inf


async def test_whom_to_blame_first_is_who_was_lost_first() -> None:
    contact = Contact(PATIENCE)
    for worker in (2, 0, 1):
        assert contact.lost(worker)
    assert not contact.lost(0)
    contact.heard(0)
    contact.ended(1)
    assert contact.out_of_reach == [2, 1]
    assert contact.missed == [2]

"""The keeper's event loop reads packets in batches and delays nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tui.runs.keeper import packet_batching

LONG = 600.0
"""Seconds that no test would live to see the end of."""


class Wires:
    """Two workers' connections, and what the loop's selector says of them."""

    def __init__(self, loop: packet_batching.BatchingLoop) -> None:
        self.selector = loop.selector
        self.pairs = [socket.socketpair() for _ in range(2)]
        for place, (_, ours) in enumerate(self.pairs):
            self.selector.register(ours, selectors.EVENT_READ, place)

    def send(self, place: int) -> None:
        self.pairs[place][0].send(b"1")

    def taken(self, timeout: float | None = None) -> set[int]:
        """Whose bytes one wake-up takes."""
        places = {key.data for key, _ in self.selector.select(timeout)}
        for place in places:
            self.pairs[place][1].recv(1)
        return places

    def close(self) -> None:
        for pair in self.pairs:
            self.selector.unregister(pair[1])
            for end in pair:
                end.close()


@pytest.fixture
def wires() -> Iterator[Wires]:
    with contextlib.closing(packet_batching.BatchingLoop()) as loop, contextlib.closing(Wires(loop)) as wires:
        yield wires


def test_what_comes_within_the_pause_is_taken_at_once(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        wires.send(1)

    monkeypatch.setattr(packet_batching, "time", SimpleNamespace(monotonic=time.monotonic, sleep=rest))
    wires.selector.pause = LONG
    wires.send(0)
    assert wires.taken() == {0}
    wires.send(0)
    assert wires.taken() == {0, 1}
    assert len(rests) == 1
    assert 0 < rests[0] <= LONG


def test_a_timer_that_is_due_waits_for_no_pause(wires: Wires) -> None:
    wires.selector.pause = LONG
    wires.send(0)
    assert wires.taken() == {0}
    wires.send(1)
    assert wires.taken(0.001) == {1}


def test_work_that_is_left_waits_for_no_pause(wires: Wires) -> None:
    wires.selector.pause = LONG
    wires.send(0)
    assert wires.taken() == {0}
    assert wires.taken(0) == set()


def test_only_the_keepers_loop_pauses_and_only_for_a_while() -> None:
    async def pauses() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, packet_batching.BatchingLoop)
        with packet_batching.batched_reads(LONG):
            inside = loop.selector.pause
        return [inside, loop.selector.pause]

    async def elsewhere() -> None:
        with packet_batching.batched_reads(LONG):
            await asyncio.sleep(0)

    with contextlib.closing(packet_batching.BatchingLoop()) as loop:
        assert loop.run_until_complete(pauses()) == [LONG, 0]
    asyncio.run(elsewhere())


def test_tasks_that_are_left_are_cancelled_and_an_error_comes_out() -> None:
    ends: list[str] = []

    async def beside() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            ends.append("cancelled")

    async def main() -> None:
        task = asyncio.ensure_future(beside())
        await asyncio.sleep(0)
        raise ZeroDivisionError(task)

    with pytest.raises(ZeroDivisionError):
        packet_batching.run_in_batches(main())
    assert ends == ["cancelled"]

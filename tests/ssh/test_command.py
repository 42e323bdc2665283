from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.sshd import OpensshWorker, needs_sshd
from tui.ssh.exec.command import BoundedOutput, OutputBudget, RunningCommand
from tui.ssh.fleet import Fleet

Start = Callable[..., OpensshWorker]


@given(st.lists(st.binary(max_size=60)), st.integers(2, 80))
def test_the_first_and_the_last_bytes_are_kept_and_the_rest_is_counted(pieces: list[bytes], limit: int) -> None:
    stored, everything = BoundedOutput(OutputBudget(limit)), b"".join(pieces)
    for piece in pieces:
        stored.add(piece)
        assert len(stored) <= limit
    first, last = limit // 2, limit - limit // 2
    if len(everything) <= limit:
        assert (stored.bytes(), stored.omitted) == (everything, 0)
    else:
        note = f"\n[... {len(everything) - limit} bytes left out ...]\n".encode()
        assert stored.bytes() == everything[:first] + note + everything[-last:]


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=40), st.integers(0, 300))
def test_streams_share_one_budget_and_each_has_a_part_of_its_own(pieces: list[tuple[int, bytes]], total: int) -> None:
    budget = OutputBudget(total, 4)
    stored = [BoundedOutput(budget) for _ in range(4)]
    for stream, piece in pieces:
        stored[stream].add(piece)
        assert sum(map(len, stored)) <= total
    for stream, one in enumerate(stored):
        written = sum(len(piece) for each, piece in pieces if each == stream)
        assert len(one) + one.omitted == written
        assert len(one) >= min(written, budget.share)
    assert not any(one.omitted for one in stored) or sum(map(len, stored)) >= total - 4 * budget.share


def test_space_that_one_stream_does_not_use_is_available_to_another() -> None:
    budget = OutputBudget(1000, 4)
    quiet, loud = BoundedOutput(budget), BoundedOutput(budget)
    quiet.add(b"a")
    loud.add(b"b" * 749)
    assert (loud.omitted, len(loud)) == (0, 749)


def test_without_a_limit_everything_is_kept() -> None:
    stored = BoundedOutput()
    stored.add(b"a" * 1000)
    stored.add(b"b")
    assert stored.bytes() == b"a" * 1000 + b"b"


@needs_sshd
async def test_a_flood_is_cut_in_the_middle_and_its_command_goes_on(sshd: Start) -> None:
    server = sshd()
    arrived = 0

    def count(_running: RunningCommand, _on_stderr: bool, data: bytes) -> None:
        nonlocal arrived
        arrived += len(data)

    async with Fleet([server.worker], server.access()) as fleet:
        command = "echo first; head -c 20000000 /dev/zero; echo last; exit 3"
        done = await fleet.run(0, command, keep=OutputBudget(200_000), on_output=count)
    assert (done.exit_code, done.omitted) == (3, 20_000_000 + 11 - 200_000)
    assert done.stdout.startswith(b"first\n\0")
    assert done.stdout.endswith(b"\0last\n")
    assert arrived == 20_000_011


@needs_sshd
async def test_output_is_passed_on_while_the_command_runs(sshd: Start) -> None:
    server = sshd()
    arrived: list[tuple[bool, bytes]] = []
    first = asyncio.Event()

    def record(_running: RunningCommand, on_stderr: bool, data: bytes) -> None:
        arrived.append((on_stderr, data))
        first.set()

    async with Fleet([server.worker], server.access()) as fleet:
        goes = server.root / "go"
        command = f"echo out; while [ ! -e {goes} ]; do sleep 0.05; done; echo err >&2"
        running = asyncio.ensure_future(fleet.run(0, command, on_output=record))
        await asyncio.wait_for(first.wait(), 60)
        assert not running.done()
        goes.touch()
        assert (await running).exit_code == 0
    assert arrived == [(False, b"out\n"), (True, b"err\n")]

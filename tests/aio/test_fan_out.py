"""Tests of work that is done at once: results come as they are known, and nothing goes on after the iteration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from tui.aio.fan_out import as_completed, gather_rows, run_all
from tui.errors import UsageError

pytestmark = pytest.mark.py310


class Work:
    """Pieces of work of which one goes on until it is cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    async def goes_on(self, *_: object) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return "late"

    async def fails(self, *_: object) -> str:
        await asyncio.sleep(0)
        raise UsageError("refused")


async def test_results_come_in_the_order_in_which_they_are_known() -> None:
    first_may_end = asyncio.Event()

    async def first() -> int:
        await first_may_end.wait()
        return 1

    async def second() -> int:
        first_may_end.set()
        return 2

    assert [result async for result in as_completed([first(), second()])] == [2, 1]


async def test_what_still_goes_on_is_cancelled_when_the_iteration_ends() -> None:
    work = Work()
    async with aclosing(as_completed([work.goes_on(), asyncio.sleep(0, "early")])) as results:
        async for result in results:
            assert result == "early"
            break
    assert work.is_cancelled


async def read_rows(work: Work, rows: list[str]) -> None:
    async def fails(report: Callable[[str], None]) -> None:
        report("a row")
        await work.fails()

    async def goes_on(report: Callable[[str], None]) -> None:
        report("another")
        await work.goes_on()

    async for row in gather_rows([goes_on, fails]):
        rows.append(row)  # noqa: PERF401 - a comprehension would lose the rows before the error


async def test_one_error_ends_the_other_work_and_is_raised() -> None:
    work = Work()
    with pytest.raises(UsageError):
        await run_all([work.goes_on(), work.fails()])
    assert work.is_cancelled


async def test_rows_before_an_error_are_yielded_and_the_other_work_is_cancelled() -> None:
    work = Work()
    rows: list[str] = []
    with pytest.raises(UsageError):
        await read_rows(work, rows)
    assert (sorted(rows), work.is_cancelled) == (["a row", "another"], True)

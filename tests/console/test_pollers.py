"""Tests of the loops and tasks that fill the store, without an app."""

from __future__ import annotations

import asyncio

from tests.console.stage import StageOperator
from tui.console.data.pollers import SLICES, Pollers
from tui.console.data.store import Store
from tui.console.data.tasks import Tasks


async def test_slices_that_are_wanted_before_the_first_paint_are_listed(operator: StageOperator) -> None:
    tasks, store = Tasks(), Store()
    await asyncio.wait_for(Pollers(operator, store, tasks).listed(), 5)
    assert store.get(SLICES).value == operator.listed.slices
    await tasks.close()

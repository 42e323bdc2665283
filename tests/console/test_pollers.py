"""Tests of the loops and tasks that fill the store, without an app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.console.stage import StageOperator, unreachable
from tui.checks.check_row import CheckRow
from tui.cloud.inventory import Listing
from tui.console.data.pollers import SLICES, Pollers, checks_of
from tui.console.data.store import Store
from tui.console.data.tasks import Tasks


async def test_slices_that_are_wanted_before_the_first_paint_are_listed(operator: StageOperator) -> None:
    tasks, store = Tasks(), Store()
    await asyncio.wait_for(Pollers(operator, store, tasks).wait_for_slices(), 60)
    assert store.get(SLICES).value == operator.listed.slices
    await tasks.close()


async def once(what: Callable[[], object]) -> None:
    """Let the pollers work until a condition holds."""

    async def poll() -> None:
        while not what():  # noqa: ASYNC110 - the store has no event for each of its sources
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), 60)


async def test_readings_of_a_slice_stay_until_a_whole_listing_is_without_it(operator: StageOperator) -> None:
    tasks, store = Tasks(), Store()
    pollers = Pollers(operator, store, tasks)
    operator.rows = [CheckRow("slice", None, None, None, "pass", None, "READY")]
    slice_ = operator.listed.slices[0]
    await pollers.wait_for_slices()
    pollers.check(slice_)
    await once(lambda: store.get(checks_of(slice_)).value)
    operator.listed = Listing((), (unreachable(),))
    pollers.refresh()
    await once(lambda: store.get(SLICES).problems)
    assert store.get(checks_of(slice_)).value
    operator.listed = Listing(())
    pollers.refresh()
    await once(lambda: not store.get(SLICES).problems)
    assert store.get(checks_of(slice_)).value is None
    await tasks.close()

"""What the API knows when something is wrong: asked only then, and less and less often while it lasts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.aio.backoff import backoff
from tui.errors import TpuTuiError
from tui.runs.health.reachability import Contact
from tui.runs.keeper.failure_rules import Patience, names_of
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory

if TYPE_CHECKING:
    from tui.cloud.inventory import Inventory
    from tui.pod.slice import Slice
    from tui.runs.health.slice_diagnosis import Plight
    from tui.settings import Settings

FIRST_WAIT = 5.0
LONGEST_WAIT = 120.0
"""Seconds between two questions while workers stay out of reach: they grow from the one to the other."""
ANSWER_TIME = 25.0
"""Seconds the API has when a failure waits to be named."""


class SliceWatch:
    """A run's slice as the Cloud TPU API sees it; nothing is opened before it is asked the first time.

    What it says becomes a `note` event with the plight's kind in the field `slice` and `gone`, whether it is final;
    `contact` learns that too. A run on machines of a hosts file has no API to ask.
    """

    def __init__(self, directory: RunDirectory, contact: Contact, patience: Patience) -> None:
        self.directory = directory
        self.contact = contact
        self.plight: Plight | None = None
        self._patience = patience
        self._inventory: Inventory | None = None
        self._told = ""
        self._asking = asyncio.Lock()

    @property
    def is_possible(self) -> bool:
        """Whether there is an API that knows the slice."""
        return self.directory.run.zone is not None

    async def run(self) -> None:
        """Ask whenever a worker has been out of reach for a while, and again as long as it is."""
        if not self.is_possible:
            return
        waits = backoff(FIRST_WAIT, LONGEST_WAIT)
        while True:
            missed = self.contact.missed
            if not missed:
                waits = backoff(FIRST_WAIT, LONGEST_WAIT)
                await self.contact.change()
                continue
            left = self._patience.ask_after - max(self.contact.out_for(worker) for worker in missed)
            if left > 0:
                await self.contact.change(left)
                continue
            await self.look()
            await asyncio.sleep(next(waits))

    async def look(self) -> Plight | None:
        """Ask now; None where it cannot be told. Never raises for the API."""
        if not self.is_possible:
            return None
        from tui.runs.health.slice_diagnosis import plight_of

        async with self._asking:
            try:
                slice_ = await asyncio.wait_for(self.ask(), ANSWER_TIME)
            except TpuTuiError as error:
                await self._tell("unknown", f"the Cloud TPU API could not be asked about the slice: {error.sentence}")
                return None
            except asyncio.TimeoutError:
                await self._tell("unknown", "the Cloud TPU API did not answer about the slice")
                return None
            self.plight = plight_of(self.directory.run, slice_)
            self.contact.give_up(self.plight.text if self.plight.is_final else None)
            told = self._in_words(self.plight)
            await self._tell(self.plight.kind, told, gone=self.plight.is_final, remedy=self.plight.remedy)
            return self.plight

    def _in_words(self, plight: Plight) -> str:
        missed = self.contact.missed
        text = f"the Cloud TPU API says: {plight.text}"
        if plight.kind == "ready" and missed:
            text += f"; so {names_of(missed)} crashed or hangs, or the network between here and there is at fault"
        return text

    async def _tell(self, kind: str, text: str, *, gone: bool = False, remedy: str = "") -> None:
        """The same is told once, unless something else was told in between."""
        if text != self._told:
            self._told = text
            await record(self.directory, "note", text=text, slice=kind, gone=gone, remedy=remedy)

    async def ask(self) -> Slice | None:
        """The slice of that name and zone, None when the zone has none. Raises TpuTuiError when that is not known."""
        run = self.directory.run
        if self._inventory is None:
            self._inventory = _open(settings_of(self.directory))
        listing = await self._inventory.slices()
        for slice_ in listing.slices:
            if (slice_.name, slice_.zone) == (run.slice, run.zone):
                return slice_
        if listing.problems:
            raise listing.problems[0]
        return None

    async def host_keys(self, slice_: Slice) -> Slice:
        """The slice with what the API vouches for of its workers. Raises CloudError."""
        assert self._inventory is not None
        return await self._inventory.host_keys(slice_)

    async def close(self) -> None:
        """Let go of the API."""
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            await inventory.close()


def settings_of(directory: RunDirectory) -> Settings:
    """The settings that lead to a run's slice. Raises UsageError for a profile that is gone or broken."""
    from tui.settings import load

    run = directory.run
    flags = {"profile": run.profile, "project": run.project, "zone": [run.zone] if run.zone else None}
    settings = load({name: value for name, value in flags.items() if value})
    return replace(settings, hosts=None) if run.zone else settings


def _open(settings: Settings) -> Inventory:
    from tui.cloud.inventory import open_inventory

    return open_inventory(settings)

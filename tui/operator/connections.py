"""What all of the operator's parts share: settings, a prompter, the source of slices, connections to workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.errors import OutOfReachError, UsageError
from tui.pod.slice import Slice
from tui.pod.worker import Worker

if TYPE_CHECKING:
    from tui.cloud.inventory import Inventory
    from tui.settings import Settings
    from tui.ssh.config.access import Access, Prompter
    from tui.ssh.fleet import Fleet


class Connections:
    """Opens what the settings name once, when it is first needed, and holds it until `close`."""

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.prompter = prompter
        self._inventory: Inventory | None = None
        self._access: Access | None = None
        self._fleets: dict[str, tuple[Slice, Fleet]] = {}
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        """Close connections; runs go on."""
        fleets, self._fleets = self._fleets, {}
        for _slice, fleet in fleets.values():
            await fleet.close()
        if self._inventory is not None:
            await self._inventory.close()
            self._inventory = None

    @property
    def inventory(self) -> Inventory:
        """The source of slices that the settings name, opened when it is first used."""
        if self._inventory is None:
            from tui.cloud.open_inventory import open_inventory

            self._inventory = open_inventory(self.settings)
        return self._inventory

    async def fleet(self, slice_: Slice) -> Fleet:
        """Return live connections to the slice's workers; new ones when the slice's addresses have changed."""
        require_workers(slice_)
        async with self._lock:
            held = self._fleets.get(slice_.path)
            if held and _addresses(held[0]) == _addresses(slice_):
                return held[1]
            if held:
                await held[1].close()
            from tui.ssh.fleet import Fleet

            known = await self.inventory.host_keys(slice_)
            access = replace(await self.access(), slice=None if self.settings.hosts else slice_.name)
            fleet = Fleet(known.workers, access, prompter=self.prompter)
            self._fleets[slice_.path] = (known, fleet)
            return fleet

    def with_host_keys(self, slice_: Slice) -> Slice:
        """Return a slice that has a fleet, its workers with the host keys that the fleet trusts."""
        return self._fleets[slice_.path][0] if slice_.path in self._fleets else slice_

    async def drop_fleet(self, slice_: Slice) -> None:
        """Close the connections to a slice's workers; the next `fleet` logs in again."""
        held = self._fleets.pop(slice_.path, None)
        if held is not None:
            await held[1].close()

    async def fleet_of(self, workers: Sequence[Worker], *, asks: bool) -> Fleet:
        """Return connections to a run's workers, made as they are needed; the caller closes them.

        `asks` has the person asked about unknown host keys.
        """
        from tui.ssh.fleet import Fleet

        return Fleet(workers, await self.access(), prompter=self.prompter if asks else None)

    async def access(self) -> Access:
        """Return what it takes to log in, with keys loaded; a passphrase is asked for once."""
        if self._access is None:
            from tui.ssh.config.access import access_from
            from tui.ssh.keys.client_keys import unlock

            self._access = await unlock(access_from(self.settings), self.prompter)
        return self._access

    async def access_for_keeper(self) -> Access:
        """Return `access` for a keeper, which reads an open key itself, so that asyncssh is not loaded here."""
        from tui.ssh.config.access import access_from
        from tui.ssh.keys.client_keys import has_unencrypted_key

        plain = access_from(self.settings)
        return plain if self._access is None and has_unencrypted_key(plain) else await self.access()

    def forget_keys(self) -> None:
        """Have the next connection look for keys again."""
        self._access = None

    def require_changes(self, what: str) -> None:
        """Raise UsageError where the settings are read-only."""
        if self.settings.read_only:
            raise UsageError(f"{what} is refused by --read-only")


def require_workers(slice_: Slice) -> None:
    """Raise OutOfReachError for a slice that has no workers to log in to."""
    if slice_.is_ready and slice_.workers:
        return
    from tui.checks.slice_state import state_remedy

    raise OutOfReachError(
        f"{slice_.name} is {slice_.state or 'without workers'}",
        why="its workers cannot be reached" if slice_.workers else "it has no workers yet",
        remedy=state_remedy(slice_),
    )


def _addresses(slice_: Slice) -> list[tuple[str | None, str | None, int]]:
    return [(worker.internal_ip, worker.external_ip, worker.port) for worker in slice_.workers]

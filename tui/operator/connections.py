"""What the parts of the operator share: settings, a prompter, the source of slices, connections to workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.checks.slice_state import state_remedy
from tui.cloud.inventory import Inventory
from tui.cloud.open_inventory import open_inventory
from tui.errors import OutOfReachError, UsageError
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.settings import Settings
from tui.ssh.config.access import Access, Prompter, access_from
from tui.ssh.keys.client_keys import has_unencrypted_key, unlock

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet


class Connections:
    """Opens what the settings name once, when it is first needed, and keeps it until `close`."""

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.prompter = prompter
        self._inventory: Inventory | None = None
        self._access: Access | None = None
        self._fleets: dict[str, tuple[Slice, Fleet]] = {}
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        """Close connections; runs continue."""
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
            self._inventory = open_inventory(self.settings)
        return self._inventory

    async def fleet(self, slice_: Slice) -> Fleet:
        """Return live connections to the slice's workers; new ones when the slice's addresses have changed."""
        from tui.ssh.fleet import Fleet

        require_workers(slice_)
        async with self._lock:
            held = self._fleets.get(slice_.path)
            if held and _addresses(held[0]) == _addresses(slice_):
                return held[1]
            if held:
                await held[1].close()
            known = await self.inventory.host_keys(slice_)
            access = replace(await self.access(), slice=None if self.settings.hosts else slice_.name)
            fleet = Fleet(known.workers, access, prompter=self.prompter)
            self._fleets[slice_.path] = (known, fleet)
            return fleet

    def with_host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with the host keys that its fleet trusts; unchanged where it has no fleet yet."""
        return self._fleets[slice_.path][0] if slice_.path in self._fleets else slice_

    async def drop_fleet(self, slice_: Slice) -> None:
        """Close the connections to a slice's workers; the next `fleet` logs in again."""
        held = self._fleets.pop(slice_.path, None)
        if held is not None:
            await held[1].close()

    async def fleet_of(self, workers: Sequence[Worker], *, asks: bool) -> Fleet:
        """Return connections to a run's workers, made as they are needed; the caller closes them.

        With `asks` the user is asked about unknown host keys.
        """
        from tui.ssh.fleet import Fleet

        return Fleet(workers, await self.access(), prompter=self.prompter if asks else None)

    async def access(self) -> Access:
        """Return the login configuration with keys loaded; a passphrase is asked for once."""
        if self._access is None:
            self._access = await unlock(access_from(self.settings), self.prompter)
        return self._access

    async def access_for_keeper(self) -> Access:
        """Return `access` for a keeper, which reads an unencrypted key itself: asyncssh is not loaded here."""
        plain = access_from(self.settings)
        return plain if self._access is None and has_unencrypted_key(plain) else await self.access()

    def forget_keys(self) -> None:
        """Make the next connection look for keys again."""
        self._access = None

    def require_changes(self, what: str) -> None:
        """Raise UsageError where the settings are read-only."""
        if self.settings.read_only:
            raise UsageError(f"{what} is refused by --read-only")


def require_workers(slice_: Slice) -> None:
    """Raise OutOfReachError for a slice that has no workers to log in to."""
    if slice_.is_ready and slice_.workers:
        return
    raise OutOfReachError(
        f"{slice_.name} {f'is {slice_.state}' if slice_.state else 'has no workers'}",
        why="its workers cannot be reached" if slice_.workers else "it has no workers yet",
        remedy=state_remedy(slice_),
    )


def _addresses(slice_: Slice) -> list[tuple[str | None, str | None, int]]:
    return [(worker.internal_ip, worker.external_ip, worker.port) for worker in slice_.workers]

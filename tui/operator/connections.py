"""The settings, prompter, source of slices and connections that the parts of the operator share."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.checks.slice_state import describe_node, node_remedy, state_remedy
from tui.cloud.inventory import Inventory
from tui.cloud.open_inventory import open_inventory
from tui.errors import OutOfReachError, UsageError
from tui.pod.slice import OS_LOGIN, Slice
from tui.settings import Settings
from tui.ssh.config.access import Access, Prompter, access_from
from tui.ssh.keys.client_keys import has_unencrypted_key, unlock

if TYPE_CHECKING:
    from tui.cloud.cloud_inventory import CloudInventory
    from tui.cloud.compute.os_login import LoginProfile
    from tui.ssh.fleet import Fleet


class Connections:
    """Opens the source of slices and connections to workers when they are first needed; keeps them until `close`."""

    def __init__(self, settings: Settings, *, prompter: Prompter | None = None) -> None:
        self.settings = settings
        self.prompter = prompter
        self._inventory: Inventory | None = None
        self._access: Access | None = None
        self._fleets: dict[str, tuple[Slice, Fleet]] = {}
        self._lock = asyncio.Lock()
        self._project_metadata: dict[str, str] | None = None
        self.profile: LoginProfile | None = None
        """The login's OS Login profile, once it has been needed."""

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

    @property
    def cloud(self) -> CloudInventory:
        """The project's sources of slices. Raises UsageError with a hosts file."""
        from tui.cloud.cloud_inventory import CloudInventory

        if isinstance(self.inventory, CloudInventory):
            return self.inventory
        raise UsageError("the machines of a hosts file are not in Google Cloud", remedy="run it without --hosts")

    async def fleet(self, slice_: Slice) -> Fleet:
        """Return live connections to the slice's workers; new ones if its workers or their addresses have changed."""
        from tui.ssh.fleet import Fleet

        require_workers(slice_)
        async with self._lock:
            entry = self._fleets.get(slice_.path)
            if entry and _identity(entry[0]) == _identity(slice_):
                return entry[1]
            if entry:
                await entry[1].close()
            known_slice = await self.with_login_facts(slice_)
            access = self.access_to(known_slice, await self.access())
            fleet = Fleet(known_slice.workers, access, prompter=self.prompter)
            self._fleets[slice_.path] = (known_slice, fleet)
            return fleet

    async def with_login_facts(self, slice_: Slice) -> Slice:
        """Return the slice with its workers' host keys and, where it uses OS Login, the user name to log in with."""
        known_slice, user = await asyncio.gather(self.inventory.host_keys(slice_), self._os_login_user(slice_))
        if user is None:
            return known_slice
        return replace(known_slice, workers=tuple(replace(worker, user=user) for worker in known_slice.workers))

    def access_to(self, known: Slice, access: Access) -> Access:
        """Return the access to the workers of a slice that `known` has returned."""
        if self.settings.hosts:
            return access
        return replace(access, slice=known.name, os_login=any(worker.user for worker in known.workers))

    async def _os_login_user(self, slice_: Slice) -> str | None:
        """Return the OS Login user name for a slice; None where it uses keys in the metadata, or a user was given.

        As with gcloud's ssh, the user's key is added to the profile where it lacks it. Raises CloudError, UsageError.
        """
        settings = self.settings
        if settings.user or not slice_.is_in_cloud or not slice_.workers:
            return None
        from tui.cloud.compute import ssh_key_metadata
        from tui.cloud.compute.os_login import login_profile
        from tui.ssh.keys.gcloud_key import find_login_key

        metadata = {} if slice_.os_login is None else {OS_LOGIN: slice_.os_login}
        if not ssh_key_metadata.has_os_login(metadata, {} if metadata else await self.project_metadata() or {}):
            return None
        if self.profile is None:
            key = await asyncio.to_thread(find_login_key, access_from(settings))
            public = None if settings.read_only else key.public
            self.profile = await asyncio.to_thread(login_profile, settings, public)
        if self.profile.user is None:
            raise UsageError(
                f"{slice_.name} uses OS Login, and there is no user name to log in with",
                why=f"the OS Login profile of {self.profile.account} has no account for project {slice_.project}",
                remedy=f"tpu-tui keys add {slice_.name} makes one with your SSH key",
            )
        return self.profile.user

    async def project_metadata(self) -> dict[str, str] | None:
        """Return the project's metadata, read once; None if it cannot be read, or belongs to a pod without it."""
        endpoints = self.settings.endpoints
        if self._project_metadata is None and ("compute" in endpoints or "tpu" not in endpoints):
            from tui.cloud.compute.project_metadata import project_metadata

            self._project_metadata = await project_metadata(self.settings)
        return self._project_metadata

    def with_host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with the host keys that its fleet trusts; unchanged where it has no fleet yet."""
        return self._fleets[slice_.path][0] if slice_.path in self._fleets else slice_

    async def drop_fleet(self, slice_: Slice) -> None:
        """Close the connections to a slice's workers; the next `fleet` logs in again."""
        entry = self._fleets.pop(slice_.path, None)
        if entry is not None:
            await entry[1].close()

    async def access(self) -> Access:
        """Return the login configuration with its keys loaded; prompt for a passphrase at most once."""
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
    if slice_.is_tpu_node:
        what = f"{slice_.name} has no workers to log in to"
        raise OutOfReachError(what, why=f"it is {describe_node(slice_)}", remedy=node_remedy(slice_))
    if slice_.is_ready and slice_.workers:
        return
    raise OutOfReachError(
        f"{slice_.name} {f'is {slice_.state}' if slice_.state else 'has no workers'}",
        why="its workers cannot be reached" if slice_.workers else "it has no workers yet",
        remedy=state_remedy(slice_),
    )


def _identity(slice_: Slice) -> tuple[object, ...]:
    """Return a value that changes with the workers: a new slice may have an old one's addresses, but other keys."""
    machines = [(worker.internal_ip, worker.external_ip, worker.port, worker.machine_id) for worker in slice_.workers]
    return (slice_.created, machines)

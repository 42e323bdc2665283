"""The user's SSH key on a slice: found there, or added as gcloud's first ssh would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui.cloud.compute import ssh_key_metadata
from tui.cloud.compute.os_login import login_profile
from tui.cloud.compute.project_metadata import change_project_metadata
from tui.errors import UsageError
from tui.operator.connections import Connections, require_workers
from tui.pod.slice import INSTANCE_GROUP, SSH_KEYS, Slice
from tui.ssh.config.access import access_from, login_to
from tui.ssh.errors import Reason, SshError
from tui.ssh.keys.gcloud_key import LoginKey, find_login_key, make_login_key

if TYPE_CHECKING:
    from tui.ssh.results import LoginResult

IN_SLICE = "slice"
IN_PROJECT = "project"
IN_PROFILE = "profile"
ACCEPT_TIMEOUT_S = 60.0
"""How long a worker's guest agent may take to act on new metadata; gcloud tries for 50 s."""
_ACCEPT_INTERVAL_S = 2.0
_REACH_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class KeyPlan:
    """What `keys add` would do: let `key` log in as `user`.

    `found` is the place that already holds the key; `target` is the place where it would be added.
    """

    slice_name: str
    workers: int
    user: str
    key: LoginKey
    found: str | None
    project_known: bool
    """Whether the project's own metadata could be read."""
    target: str = IN_SLICE
    account: str | None = None
    """The account whose OS Login profile has or gets the key; None for a key in metadata."""

    @property
    def place(self) -> str:
        """Where the key is, or would be added."""
        if self.account:
            return f"the OS Login profile of {self.account}"
        return f"the {self.found or self.target}'s metadata"


class Keys:
    """Adds the user's own key to the metadata of slices, or of the project for instance groups."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def plan(self, slice_: Slice) -> KeyPlan:
        """Return what would let the user's own key log in to a slice; nothing is changed.

        Raises UsageError for machines without metadata, CloudError.
        """
        settings = self._connections.settings
        require_workers(slice_)
        access = access_from(settings)
        key = await asyncio.to_thread(find_login_key, access)
        user = (await login_to(slice_.workers[0], access)).user
        if not ssh_key_metadata.is_valid_user(user):
            raise UsageError(
                f"a key cannot be added for {user!r}",
                why="that is not a valid user name",
                remedy="set another with --user",
            )
        metadata, of_project = await asyncio.gather(
            self._connections.inventory.metadata(slice_), self._connections.project_metadata()
        )
        if ssh_key_metadata.has_os_login(metadata, of_project or {}):
            return await self._plan_in_profile(slice_, key, project_known=of_project is not None)
        is_group, is_blocked = slice_.source == INSTANCE_GROUP, ssh_key_metadata.blocks_project_keys(metadata)
        found = None
        if key.public is not None:
            if ssh_key_metadata.accepts(metadata.get(SSH_KEYS, ""), user, key.public):
                found = IN_SLICE
            elif not is_blocked and ssh_key_metadata.accepts((of_project or {}).get(SSH_KEYS, ""), user, key.public):
                found = IN_PROJECT
        if found is None and is_group and is_blocked:
            raise UsageError(
                f"a key cannot be added to instance group {slice_.name}",
                why="the metadata in its template blocks the project's keys",
                remedy=f"gcloud compute ssh {slice_.workers[0].name} --zone={slice_.zone} adds it to one VM",
            )
        target = IN_PROJECT if is_group else IN_SLICE
        return KeyPlan(slice_.name, len(slice_.workers), user, key, found, of_project is not None, target)

    async def _plan_in_profile(self, slice_: Slice, key: LoginKey, *, project_known: bool) -> KeyPlan:
        """Return the plan for a slice with OS Login, which ignores keys in the metadata."""
        settings = self._connections.settings
        profile = self._connections.profile = await asyncio.to_thread(login_profile, settings)
        if settings.user and settings.user not in profile.users:
            raise UsageError(
                f"a key cannot be added for {settings.user}",
                why=f"{slice_.name} uses OS Login, where {profile.account} is {profile.user or 'not known yet'}",
                remedy="omit the user (--user, or user in the profile)",
            )
        user = settings.user or profile.user or profile.account
        found = IN_PROFILE if profile.accepts(key.public) else None
        return KeyPlan(slice_.name, len(slice_.workers), user, key, found, project_known, account=profile.account)

    async def make(self, plan: KeyPlan) -> KeyPlan:
        """Return the plan with its key created where there was none; connections made from now on offer it."""
        self._connections.forget_keys()
        if plan.key.exists:
            return plan
        return replace(plan, key=await asyncio.to_thread(make_login_key, plan.key))

    async def add(self, slice_: Slice, plan: KeyPlan) -> AsyncIterator[str]:
        """Add the plan's key to metadata, keeping every other line and value, or to the OS Login profile.

        Yields the progress.
        """
        self._connections.require_changes("changing slices")
        public = plan.key.public
        assert public is not None, "the key is made before it is added"
        if plan.account:
            profile = await asyncio.to_thread(login_profile, self._connections.settings, public)
            self._connections.profile = profile
            yield f"the OS Login user name is {profile.user}"
            return

        def change(metadata: dict[str, str]) -> dict[str, str]:
            text = metadata.get(SSH_KEYS, "")
            if ssh_key_metadata.accepts(text, plan.user, public):
                return metadata
            return {**metadata, SSH_KEYS: ssh_key_metadata.with_key(text, plan.user, public)}

        if plan.target == IN_PROJECT:  # a VM that the group makes later has only the metadata of its template
            steps = change_project_metadata(self._connections.settings, change)
        else:
            lifecycle = self._connections.cloud.tpu.lifecycle
            steps = lifecycle.set_metadata(slice_.zone or "", slice_.name, change)
        async for step in steps:
            yield step

    def with_user_name(self, plan: KeyPlan) -> KeyPlan:
        """Return the plan after its key has been added, which gives a new OS Login account its user name."""
        profile = self._connections.profile
        return replace(plan, user=profile.user) if plan.account and profile and profile.user else plan

    async def wait_until_accepted(self, slice_: Slice) -> list[LoginResult]:
        """Log in to each worker again until it accepts the key, fails for another reason, or time is up."""
        await self._connections.drop_fleet(slice_)
        fleet = await self._connections.fleet(slice_)
        deadline = asyncio.get_running_loop().time() + ACCEPT_TIMEOUT_S

        async def wait_for(rank: int) -> LoginResult:
            while True:
                login = await fleet.try_login(rank, _REACH_TIMEOUT_S)
                is_denied = isinstance(login.error, SshError) and login.error.reason is Reason.DENIED
                if not is_denied or asyncio.get_running_loop().time() > deadline:
                    return login
                await asyncio.sleep(_ACCEPT_INTERVAL_S)

        return list(await asyncio.gather(*map(wait_for, range(len(slice_.workers)))))

"""The person's SSH key on a slice: is it there, and if not, put there as gcloud's first `tpu-vm ssh` would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui.errors import UsageError
from tui.pod.slice import Slice

if TYPE_CHECKING:
    from tui.cloud.tpu.tpu_api import TpuApi
    from tui.settings import Settings
    from tui.ssh.config.access import Access
    from tui.ssh.exec.port_probe import Reach as Reached
    from tui.ssh.fleet import Fleet
    from tui.ssh.keys.gcloud_key import LoginKey

IN_SLICE = "slice"
IN_PROJECT = "project"
LET_IN_SECONDS = 60.0
"""How long a worker's guest agent may take to act on new metadata; gcloud tries for 50 s."""
_LET_IN_PAUSE = 2.0
_REACH_TIMEOUT = 15.0


@dataclass(frozen=True)
class KeyPlan:
    """What `keys add` would do: let `key` log in as `user`. `found` says where the metadata holds it already."""

    slice_name: str
    workers: int
    user: str
    key: LoginKey
    found: str | None
    project_known: bool
    """Whether the project's own metadata could be read."""


async def plan_key(settings: Settings, api: TpuApi, access: Access, slice_: Slice) -> KeyPlan:
    """Look where the key is. Raises UsageError for machines without metadata, and where OS Login rules."""
    from tui.cloud.compute import ssh_key_metadata
    from tui.cloud.compute.project_metadata import project_metadata
    from tui.ssh.config.access import login_to
    from tui.ssh.keys.gcloud_key import login_key

    key = await asyncio.to_thread(login_key, access)
    user = login_to(slice_.workers[0], access).user
    if not ssh_key_metadata.is_user(user):
        raise UsageError(
            f"a key cannot be added for {user!r}", why="that is no user name", remedy="give --user another"
        )
    metadata, of_project = await asyncio.gather(api.metadata(slice_), project_metadata(settings))
    if ssh_key_metadata.os_login(metadata, of_project or {}):
        makes = "" if key.exists else f"ssh-keygen -t ed25519 -f {key.path}, "
        raise UsageError(
            f"{slice_.name} uses OS Login: keys in its metadata are not read",
            why=f"{ssh_key_metadata.OS_LOGIN} is TRUE",
            remedy=f"{makes}gcloud compute os-login ssh-keys add --key-file={key.path}.pub, then log in with --user "
            "as gcloud compute os-login describe-profile tells (posixAccounts.username); "
            "it takes the role roles/compute.osLogin",
        )
    found = None
    if key.public is not None:
        if ssh_key_metadata.lets_in(metadata.get(ssh_key_metadata.SSH_KEYS, ""), user, key.public):
            found = IN_SLICE
        elif not ssh_key_metadata.blocks_project_keys(metadata) and ssh_key_metadata.lets_in(
            (of_project or {}).get(ssh_key_metadata.SSH_KEYS, ""), user, key.public
        ):
            found = IN_PROJECT
    return KeyPlan(slice_.name, len(slice_.workers), user, key, found, of_project is not None)


async def add_key(api: TpuApi, slice_: Slice, plan: KeyPlan) -> AsyncIterator[str]:
    """Put the plan's key into the slice's metadata, every other line and value kept; tells how it goes."""
    from tui.cloud.compute import ssh_key_metadata

    public = plan.key.public
    assert public is not None, "the key is made before it is added"

    def change(metadata: dict[str, str]) -> dict[str, str]:
        text = metadata.get(ssh_key_metadata.SSH_KEYS, "")
        if ssh_key_metadata.lets_in(text, plan.user, public):
            return metadata
        return {**metadata, ssh_key_metadata.SSH_KEYS: ssh_key_metadata.with_key(text, plan.user, public)}

    async for told in api.set_metadata(slice_, change):
        yield told


async def made(plan: KeyPlan) -> KeyPlan:
    """The plan with its key made, where there was none."""
    if plan.key.exists:
        return plan
    from tui.ssh.keys.gcloud_key import make_login_key

    return replace(plan, key=await asyncio.to_thread(make_login_key, plan.key))


async def let_in(fleet: Fleet, ranks: list[int], seconds: float = LET_IN_SECONDS) -> list[Reached]:
    """Try each worker until it lets us in, fails for another reason than our key, or time is up."""
    from tui.ssh.errors import Reason, SshError

    deadline = asyncio.get_running_loop().time() + seconds

    async def tried(rank: int) -> Reached:
        while True:
            reached = await fleet.reach(rank, _REACH_TIMEOUT)
            denied = isinstance(reached.error, SshError) and reached.error.reason is Reason.DENIED
            if not denied or asyncio.get_running_loop().time() > deadline:
                return reached
            await asyncio.sleep(_LET_IN_PAUSE)

    return list(await asyncio.gather(*(tried(rank) for rank in ranks)))

"""Slices and workers: see them, check them, run and copy things on them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.slice import Slice
from tui.pod.worker import Worker

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow
    from tui.cloud.inventory import Inventory, Listing
    from tui.operator.keys import KeyPlan
    from tui.settings import Settings
    from tui.ssh.config.access import Access, Prompter
    from tui.ssh.exec.command import OnOutput
    from tui.ssh.exec.port_probe import Reach as Reached
    from tui.ssh.fleet import Completed, Fleet
    from tui.ssh.sync.upload import OnSent, SyncResult

REACH_TIMEOUT = 10.0
"""Seconds a worker has to answer when somebody looks at the list of workers."""


EXEC_KEEPS = 64 * 1024 * 1024
"""Bytes of all workers' output together that `exec` holds in memory at most."""


class Reach:
    """One person's settings, the inventory they name, and live connections to its workers.

    Everything is asynchronous and cancellable; nothing prints. Errors are `TpuTuiError`s.
    """

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

    # ── see ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def where(self) -> str:
        """Where slices are looked for, in words."""
        if self.settings.hosts:
            return str(self.settings.hosts)
        zones = ", ".join(self.settings.zones) or "any zone"
        return f"project {self.settings.project}, {zones}" if self.settings.project else "no project is set"

    @property
    def inventory(self) -> Inventory:
        """The source of slices that the settings name, opened when first asked."""
        if self._inventory is None:
            from tui.cloud.inventory import open_inventory

            self._inventory = open_inventory(self.settings)
        return self._inventory

    async def slices(self) -> Listing:
        """Every slice of every zone asked for; zones that failed are among `problems`."""
        return await self.inventory.slices()

    async def slice(self, ref: str) -> Slice:
        """The slice that `name` or `zone/name` means.

        Raises UsageError (unknown or ambiguous, with the candidates) and CloudError.
        """
        zone, slash, name = ref.rpartition("/")
        if not name:
            raise UsageError("no slice is named", remedy="tpu-tui slices lists them")
        if slash:
            return await self.inventory.get(name, zone)
        if len(self.settings.zones) == 1 and not self.settings.hosts:
            return await self.inventory.get(name, self.settings.zones[0])
        listing = await self.slices()
        found = [slice_ for slice_ in listing.slices if slice_.name == name]
        if len(found) > 1:
            candidates = ", ".join(slice_.path for slice_ in found)
            raise UsageError(f"{name} is in more than one zone", remedy=f"say which: {candidates}")
        if found:
            return found[0]
        if listing.problems:
            raise listing.problems[0]
        return await self.inventory.get(name, None)

    async def workers(self, slice_: Slice) -> list[Worker]:
        """The slice's workers, each tried over SSH: `reachable` and, where it is not, the sentence why."""
        fleet = await self.fleet(slice_)

        async def tried(worker: Worker) -> Worker:
            reach = await fleet.reach(worker.index, REACH_TIMEOUT)
            if reach.error is None:
                return replace(worker, reachable=reach.ok)
            return replace(worker, reachable=False, error=reach.error.sentence, remedy=reach.error.remedy or None)

        known, _ = self._fleets[slice_.path]
        return list(await asyncio.gather(*(tried(worker) for worker in known.workers)))

    async def fleet(self, slice_: Slice) -> Fleet:
        """Live connections to the slice's workers, kept until `close`; made anew when its addresses changed."""
        self._require_workers(slice_)
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

    async def access(self) -> Access:
        """What it takes to log in: keys loaded, a passphrase asked once."""
        if self._access is None:
            from tui.ssh.config.access import access_from
            from tui.ssh.keys.client_keys import unlock

            self._access = await unlock(access_from(self.settings), self.prompter)
        return self._access

    async def access_to_hand_on(self) -> Access:
        """As `access`, for a keeper: a key without a passphrase it reads itself, and asyncssh is not loaded here."""
        from tui.ssh.config.access import access_from
        from tui.ssh.keys.client_keys import lie_open

        plain = access_from(self.settings)
        return plain if self._access is None and lie_open(plain) else await self.access()

    @staticmethod
    def _require_workers(slice_: Slice) -> None:
        if slice_.is_ready and slice_.workers:
            return
        from tui.checks.slice_state import state_remedy

        raise OutOfReachError(
            f"{slice_.name} is {slice_.state or 'without workers'}",
            why="its workers cannot be reached" if slice_.workers else "it has no workers yet",
            remedy=state_remedy(slice_),
        )

    # ── the life of a slice ──────────────────────────────────────────────────────────────────────

    def create_slice(
        self, ref: str, accelerator_type: str, runtime_version: str, *, spot: bool = False, dry_run: bool = False
    ) -> AsyncIterator[str]:
        """Make a slice (`name`, or `zone/name` where several zones are configured); yields its progress.

        `dry_run` yields what would be asked for, and asks for nothing.
        """
        create = self._tpu_api(reads=dry_run).create
        zone, _, name = ref.rpartition("/")
        if not name:
            raise UsageError("no name is given for the slice", remedy="tpu-tui slices create NAME …")
        if not zone and len(self.settings.zones) != 1:
            raise UsageError("which zone?", remedy=f"--zone ZONE, or tpu-tui slices create ZONE/{name}")
        where = zone or self.settings.zones[0]
        steps: AsyncIterator[str] = create(where, name, accelerator_type, runtime_version, spot=spot, dry_run=dry_run)
        return steps

    def change_slice(self, slice_: Slice, action: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete, start or stop a slice; yields its progress, or with `dry_run` only what would be done."""
        api = self._tpu_api(reads=dry_run)
        change = {"delete": api.delete, "start": api.start, "stop": api.stop}[action]
        steps: AsyncIterator[str] = change(slice_.zone, slice_.name, dry_run=dry_run)
        return steps

    def _tpu_api(self, *, reads: bool = False) -> Any:
        if self.settings.read_only and not reads:
            raise UsageError("changing slices is refused by --read-only")
        if self.settings.hosts:
            raise UsageError("a hosts file's machines are not made or deleted here", remedy="leave --hosts out")
        return self.inventory

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    async def plan_key(self, slice_: Slice) -> KeyPlan:
        """What it would take to log in to a slice with the person's own key; nothing is changed.

        Raises UsageError for a hosts file's machines and where OS Login rules.
        """
        from tui.operator.keys import plan_key
        from tui.ssh.config.access import access_from

        if self.settings.hosts:
            raise UsageError(
                "a hosts file's machines have no metadata", remedy="ssh-copy-id -i KEY.pub USER@HOST does it for each"
            )
        self._require_workers(slice_)
        return await plan_key(self.settings, self._tpu_api(reads=True), access_from(self.settings), slice_)

    async def make_key(self, plan: KeyPlan) -> KeyPlan:
        """The plan with its key made, where there was none; connections made from now on offer it."""
        from tui.operator.keys import made

        self._access = None
        return await made(plan)

    async def add_key(self, slice_: Slice, plan: KeyPlan) -> AsyncIterator[str]:
        """Put the plan's key into the slice's metadata; tells how it goes."""
        from tui.operator.keys import add_key

        async for told in add_key(self._tpu_api(), slice_, plan):
            yield told

    async def let_in(self, slice_: Slice) -> list[Reached]:
        """Try every worker until it lets us in or the metadata has had its time."""
        from tui.operator.keys import let_in

        held = self._fleets.pop(slice_.path, None)
        if held is not None:
            await held[1].close()
        return await let_in(await self.fleet(slice_), list(range(len(slice_.workers))))

    # ── check and exec ───────────────────────────────────────────────────────────────────────────

    async def check(self, slice_: Slice, ports: Sequence[int] = ()) -> AsyncIterator[CheckRow]:
        """Every check of a slice, a row as soon as it is known."""
        from tui.checks.run_checks import run_checks
        from tui.checks.slice_state import slice_rows
        from tui.cloud.compute.firewall_rules import FirewallRules

        for row in slice_rows(slice_):
            yield row
        if not (slice_.is_ready and slice_.workers):
            return
        fleet = await self.fleet(slice_)
        tags, account = await self.inventory.identity(slice_)
        async for row in run_checks(
            self._fleets[slice_.path][0],
            fleet,
            ports,
            thresholds=self.settings.thresholds,
            run_root=self.settings.run_root,
            firewall=FirewallRules(self.settings) if slice_.source == "tpu_api" else None,
            route=self.settings.route,
            tags=tags,
            account=account,
        ):
            yield row

    async def exec(
        self,
        slice_: Slice,
        argv: Sequence[str],
        ranks: Sequence[int] | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> AsyncGenerator[Completed | TpuTuiError, None]:
        """Run one command on many workers; yields as they finish, an error for a worker that cannot be reached.

        `timeout` is each worker's, in seconds, for its login and the command together.
        `on_output` hears what is written while it is. Of all workers' stdout and stderr together
        `EXEC_KEEPS` bytes are kept, the rest is left out of the middle.
        """
        fleet = await self.fleet(slice_)
        from tui.ssh.exec.command import OutputBudget

        chosen = range(len(slice_.workers)) if ranks is None else ranks
        keep = OutputBudget(EXEC_KEEPS, max(1, 2 * len(chosen)))
        async for answer in fleet.run_all(chosen, shlex.join(argv), timeout=timeout, keep=keep, on_output=on_output):
            yield answer

    async def sync(
        self, slice_: Slice, directory: Path, on_sent: OnSent | None = None
    ) -> AsyncIterator[SyncResult | TpuTuiError]:
        """Copy a working tree to every worker; yields as they have it, an error for one that could not.

        `on_sent` hears how far each worker is.
        """
        from tui.ssh.sync.upload import sync_tree

        if self.settings.read_only:
            raise UsageError("copying to workers is refused by --read-only")
        if not directory.is_dir():
            raise UsageError(f"{directory} is no directory", remedy="name the directory to copy")
        fleet = await self.fleet(slice_)
        ranks = range(len(slice_.workers))
        async for answer in sync_tree(fleet, ranks, directory, run_root=self.settings.run_root, on_sent=on_sent):
            yield answer

    async def shell_command(self, slice_: Slice, worker: int) -> list[str]:
        """The `ssh` command line that leads to one worker, host key checked as here."""
        from tui.ssh.config.ssh_command import shell_command

        self._require_workers(slice_)
        known = await self.inventory.host_keys(slice_)
        return shell_command(known.workers[worker], await self.access())


def _addresses(slice_: Slice) -> list[tuple[str | None, str | None, int]]:
    return [(worker.internal_ip, worker.external_ip, worker.port) for worker in slice_.workers]

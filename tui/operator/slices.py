"""Slices and their workers: list, create, delete, start and stop them; check them; run and copy things on them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError, UsageError
from tui.operator.connections import Connections, require_workers
from tui.pod.slice import Slice
from tui.pod.worker import Worker

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow
    from tui.cloud.inventory import Listing
    from tui.ssh.exec.command import OnOutput
    from tui.ssh.exec.command_result import CommandResult
    from tui.ssh.sync.upload import OnSent, SyncResult

REACH_TIMEOUT_S = 10.0
"""Time that a worker has to answer when a slice's workers are listed."""
EXEC_OUTPUT_BYTES = 64 * 1024 * 1024
"""Output of all workers together that `execute` holds in memory at most."""


class Slices:
    """The slices that the settings lead to, and work on all of a slice's workers at once."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @property
    def where(self) -> str:
        """Where slices are looked for, in words."""
        settings = self._connections.settings
        if settings.hosts:
            return str(settings.hosts)
        zones = ", ".join(settings.zones) or "any zone"
        return f"project {settings.project}, {zones}" if settings.project else "no project is set"

    async def list_all(self) -> Listing:
        """Return the slices of every configured zone; zones that failed are among `problems`."""
        return await self._connections.inventory.slices()

    async def get(self, ref: str) -> Slice:
        """Return the slice that `name` or `zone/name` means.

        Raises UsageError (unknown or ambiguous, with the candidates) and CloudError.
        """
        inventory, settings = self._connections.inventory, self._connections.settings
        zone, slash, name = ref.rpartition("/")
        if not name:
            raise UsageError("no slice is named", remedy="tpu-tui slices lists them")
        if slash:
            return await inventory.get(name, zone)
        if len(settings.zones) == 1 and not settings.hosts:
            return await inventory.get(name, settings.zones[0])
        listing = await self.list_all()
        found = [slice_ for slice_ in listing.slices if slice_.name == name]
        if len(found) > 1:
            candidates = ", ".join(slice_.path for slice_ in found)
            raise UsageError(f"{name} is in more than one zone", remedy=f"name one of {candidates}")
        if found:
            return found[0]
        if listing.problems:
            raise listing.problems[0]
        return await inventory.get(name, None)

    async def reach_workers(self, slice_: Slice) -> list[Worker]:
        """Return the slice's workers, each tried over SSH: `reachable` and, where it is not, why."""
        fleet = await self._connections.fleet(slice_)

        async def reach(worker: Worker) -> Worker:
            reached = await fleet.try_login(worker.index, REACH_TIMEOUT_S)
            if reached.error is None:
                return replace(worker, reachable=reached.ok)
            return replace(worker, reachable=False, error=reached.error.sentence, remedy=reached.error.remedy or None)

        return list(await asyncio.gather(*map(reach, self._connections.with_host_keys(slice_).workers)))

    def create(
        self, ref: str, accelerator_type: str, runtime_version: str, *, spot: bool = False, dry_run: bool = False
    ) -> AsyncIterator[str]:
        """Create a slice (`name`, or `zone/name` where several zones are configured); yield its progress.

        `dry_run` yields what would be asked for, and asks for nothing.
        """
        create, zones = self._tpu_api(changes=not dry_run).create, self._connections.settings.zones
        zone, _, name = ref.rpartition("/")
        if not name:
            raise UsageError("no name is given for the slice", remedy="tpu-tui slices create NAME …")
        if not zone and len(zones) != 1:
            raise UsageError("which zone?", remedy=f"--zone ZONE, or tpu-tui slices create ZONE/{name}")
        where = zone or zones[0]
        steps: AsyncIterator[str] = create(where, name, accelerator_type, runtime_version, spot=spot, dry_run=dry_run)
        return steps

    def change(self, slice_: Slice, action: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete, start or stop a slice; yield its progress, or with `dry_run` only what would be done."""
        api = self._tpu_api(changes=not dry_run)
        change = {"delete": api.delete, "start": api.start, "stop": api.stop}[action]
        steps: AsyncIterator[str] = change(slice_.zone, slice_.name, dry_run=dry_run)
        return steps

    def _tpu_api(self, *, changes: bool) -> Any:
        if changes:
            self._connections.require_changes("changing slices")
        if self._connections.settings.hosts:
            raise UsageError("the machines of a hosts file cannot be created or deleted", remedy="leave --hosts out")
        return self._connections.inventory

    async def check(self, slice_: Slice, ports: Sequence[int] = ()) -> AsyncIterator[CheckRow]:
        """Check a slice; yield a row as soon as it is known."""
        from tui.checks.run_checks import run_checks
        from tui.checks.slice_state import slice_rows
        from tui.cloud.compute.firewall_rules import FirewallRules

        for row in slice_rows(slice_):
            yield row
        if not (slice_.is_ready and slice_.workers):
            return
        settings = self._connections.settings
        fleet = await self._connections.fleet(slice_)
        tags, account = await self._connections.inventory.identity(slice_)
        async for row in run_checks(
            self._connections.with_host_keys(slice_),
            fleet,
            ports,
            thresholds=settings.thresholds,
            run_root=settings.run_root,
            firewall=FirewallRules(settings) if slice_.source == "tpu_api" else None,
            route=settings.route,
            tags=tags,
            account=account,
        ):
            yield row

    async def execute(
        self,
        slice_: Slice,
        argv: Sequence[str],
        ranks: Sequence[int] | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> AsyncGenerator[CommandResult | TpuTuiError, None]:
        """Run one command on many workers; yield results as they come, an error for a worker out of reach.

        `timeout` is in seconds, for each worker's login and command together. `on_output` gets what is written as it
        comes. Of all workers' stdout and stderr together `EXEC_OUTPUT_BYTES` are kept, the rest is left out of the
        middle.
        """
        fleet = await self._connections.fleet(slice_)
        from tui.ssh.exec.command import OutputBudget

        chosen = range(len(slice_.workers)) if ranks is None else ranks
        keep = OutputBudget(EXEC_OUTPUT_BYTES, max(1, 2 * len(chosen)))
        async for answer in fleet.run_all(chosen, shlex.join(argv), timeout=timeout, keep=keep, on_output=on_output):
            yield answer

    async def sync(
        self, slice_: Slice, directory: Path, on_sent: OnSent | None = None
    ) -> AsyncIterator[SyncResult | TpuTuiError]:
        """Copy a working tree to every worker; yield a result for each that has it, an error for one that has not.

        `on_sent` gets how far each worker is.
        """
        from tui.ssh.sync.upload import sync_tree

        self._connections.require_changes("copying to workers")
        if not directory.is_dir():
            raise UsageError(f"{directory} is not a directory", remedy="name the directory to copy")
        fleet = await self._connections.fleet(slice_)
        ranks, run_root = range(len(slice_.workers)), self._connections.settings.run_root
        async for answer in sync_tree(fleet, ranks, directory, run_root=run_root, on_sent=on_sent):
            yield answer

    async def ssh_command(self, slice_: Slice, worker: int) -> list[str]:
        """Return the `ssh` command line that opens a shell on one worker, with the same check of its host key."""
        from tui.ssh.config.ssh_command import shell_command

        require_workers(slice_)
        known = await self._connections.inventory.host_keys(slice_)
        return shell_command(known.workers[worker], await self._connections.access())

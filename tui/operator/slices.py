"""Slices and their workers: list, create, delete, start, stop and check slices, run commands and copy files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.checks.slice_state import slice_rows
from tui.errors import TpuTuiError, UsageError
from tui.operator.connections import Connections, require_workers
from tui.pod.slice import INSTANCE_GROUP, Slice

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow
    from tui.cloud.inventory import Listing
    from tui.cloud.tpu.tpu_api import TpuApi
    from tui.pod.creation.machine_request import MachineRequest
    from tui.pod.creation.queued_request import QueuedListing
    from tui.pod.creation.slice_request import CreationStep, SliceRequest
    from tui.pod.creation.zone_offer import OfferListing
    from tui.pod.worker import Worker
    from tui.ssh.exec.command import OnOutput
    from tui.ssh.results import CommandResult
    from tui.ssh.sync.upload import OnSent, SyncResult

REACH_TIMEOUT_S = 10.0
"""How long a worker may take to answer when a slice's workers are listed."""
EXEC_OUTPUT_BYTES = 64 * 1024 * 1024
"""Most output of all workers together that `execute` keeps in memory."""

ChangeGroup = Callable[[Slice, str, bool], AsyncIterator[str]]
"""Changes a slice that is an instance group, given the slice, the action, and whether it is a dry run."""


class Slices:
    """The slices that the settings name, and work on all workers of a slice at once."""

    def __init__(self, connections: Connections, change_group: Callable[[], ChangeGroup]) -> None:
        self._connections = connections
        self._change_group = change_group

    @property
    def where(self) -> str:
        """Where slices are looked for, as text."""
        settings = self._connections.settings
        if settings.hosts:
            return str(settings.hosts)
        zones = ", ".join(settings.zones) or "any zone"
        return f"project {settings.project}, {zones}" if settings.project else "no project is set"

    async def list_all(self) -> Listing:
        """Return the slices of every configured zone; zones that failed are among `problems`."""
        return await self._connections.inventory.slices()

    async def get(self, ref: str) -> Slice:
        """Return the slice called `name` or `zone/name`.

        Raises UsageError (unknown, or ambiguous with the candidates) and CloudError.
        """
        inventory, settings = self._connections.inventory, self._connections.settings
        zone, slash, name = ref.rpartition("/")
        if not name:
            raise UsageError("no slice given", remedy="list slices with tpu-tui slices")
        if slash:
            return await inventory.get(name, zone)
        is_in_one_zone = len(settings.zones) == 1 and not settings.hosts
        return await inventory.get(name, settings.zones[0] if is_in_one_zone else None)

    async def reach_workers(self, slice_: Slice) -> list[Worker]:
        """Return the slice's workers after an SSH login to each, with `reachable` and, where that failed, `error`."""
        fleet = await self._connections.fleet(slice_)

        async def reach(worker: Worker) -> Worker:
            login = await fleet.try_login(worker.index, REACH_TIMEOUT_S)
            if login.error is None:
                return replace(worker, reachable=login.ok)
            return replace(worker, reachable=False, error=login.error.sentence, remedy=login.error.remedy or None)

        return list(await asyncio.gather(*map(reach, self._connections.with_host_keys(slice_).workers)))

    def place_of(self, ref: str) -> tuple[str, str]:
        """Return zone and name of a new slice or a queued resource: `name`, or `zone/name` among several zones."""
        zones = self._connections.settings.zones
        zone, _, name = ref.rpartition("/")
        if not name:
            raise UsageError("no name given", remedy="use NAME, or ZONE/NAME if several zones are configured")
        if not zone and len(zones) != 1:
            raise UsageError("no zone given", remedy=f"add --zone ZONE, or use ZONE/{name}")
        return zone or zones[0], name

    def create(
        self, request: SliceRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        """Create a slice, or several in the queue, and yield the steps; with `dry_run`, only what would be sent.

        Without `waits` the steps end when the API has accepted the request, else when every worker's startup script
        has ended. Raises TpuTuiError; slices whose startup script failed stay.
        """
        steps = self._tpu_api(changes=not dry_run).create(request, dry_run=dry_run, waits=waits)
        return self.with_startup(steps, request) if waits and not dry_run else steps

    def with_startup(
        self, steps: AsyncIterator[CreationStep], request: MachineRequest
    ) -> AsyncIterator[CreationStep]:
        """Return the steps of a creation, and after them those of the startup scripts if the request has one."""
        if not request.has_startup_script:
            return steps
        from tui.operator.startup_scripts import StartupScripts

        return StartupScripts(self._connections, self.get).follow(steps, request)

    def change(self, slice_: Slice, action: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete, start or stop a slice; yield its progress, or with `dry_run` what would be done."""
        if slice_.source == INSTANCE_GROUP:
            return self._change_group()(slice_, action, dry_run)
        lifecycle = self._tpu_api(changes=not dry_run).lifecycle
        change = {"delete": lifecycle.delete, "start": lifecycle.start, "stop": lifecycle.stop}[action]
        return change(slice_.zone or "", slice_.name, dry_run=dry_run)

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return everything that the source of a slice reports about it, unchanged."""
        return await self._connections.inventory.describe(slice_)

    async def offers(self, zones: Sequence[str] = ()) -> OfferListing:
        """Return the types and runtime versions of the zones, by default the configured ones, else all."""
        return await self._tpu_api(changes=False).offers(zones)

    async def offers_with_machines(self) -> OfferListing:
        """Return what the configured zones offer, or all, with the machine types of Compute Engine that have TPUs.

        Where this login may not list those, they are left out.
        """
        from tui.cloud.compute.machine_offers import list_tpu_machines
        from tui.cloud.instance_groups.instance_groups import is_forbidden
        from tui.cloud.inventory import or_error
        from tui.pod.creation.zone_offer import ZoneOffer

        listing, answer = await asyncio.gather(self.offers(), or_error(list_tpu_machines(self._connections.settings)))
        if isinstance(answer, TpuTuiError):
            problems = () if is_forbidden(answer) else (answer,)
            return replace(listing, problems=(*listing.problems, *problems))
        machines, silent = answer
        offers = {offer.zone: offer for offer in listing.offers}
        for zone, names in machines.items():
            offers[zone] = replace(offers.get(zone, ZoneOffer(zone, {})), machine_types=tuple(names))
        return replace(
            listing, offers=tuple(offers[zone] for zone in sorted(offers)), problems=(*listing.problems, *silent)
        )

    async def queued(self) -> QueuedListing:
        """Return the queued resources of every configured zone."""
        return await self._tpu_api(changes=False).queued_requests()

    def delete_queued(self, ref: str, *, force: bool, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete a queued resource, with `force` its slices too; yield the progress until they are gone."""
        queue = self._tpu_api(changes=not dry_run).queue
        return queue.delete(*self.place_of(ref), force=force, dry_run=dry_run)

    def reset_queued(self, ref: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Put a queued resource back into the queue, which creates its slices again; yield the progress."""
        queue = self._tpu_api(changes=not dry_run).queue
        return queue.reset(*self.place_of(ref), dry_run=dry_run)

    def _tpu_api(self, *, changes: bool) -> TpuApi:
        """Return the Cloud TPU API. Raises UsageError with a hosts file, and for `changes` in read-only mode."""
        if changes:
            self._connections.require_changes("changing slices")
        if self._connections.settings.hosts:
            raise UsageError(
                "the machines of a hosts file are not slices of the Cloud TPU API",
                why="they cannot be created, queued, deleted, started or stopped",
                remedy="run it without --hosts",
            )
        return self._connections.cloud.tpu

    async def check(self, slice_: Slice, ports: Sequence[int] = ()) -> AsyncIterator[CheckRow]:
        """Check a slice; yield each row as soon as it is known."""
        from tui.checks.run_checks import run_checks
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
            firewall=FirewallRules(settings) if slice_.is_in_cloud else None,
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
        """Run one command on many workers; yield results as they come, an error for each unreachable worker.

        `timeout` (seconds) covers each worker's login and command together. `on_output` receives output as it
        arrives. `EXEC_OUTPUT_BYTES` of all workers' stdout and stderr are kept; the rest is cut out of the middle.
        """
        from tui.ssh.connection import command_line
        from tui.ssh.exec.command import OutputBudget

        fleet = await self._connections.fleet(slice_)
        chosen = range(len(slice_.workers)) if ranks is None else ranks
        keep = OutputBudget(EXEC_OUTPUT_BYTES, max(1, 2 * len(chosen)))
        async for answer in fleet.run_all(
            chosen, command_line(argv), timeout=timeout, keep=keep, on_output=on_output
        ):
            yield answer

    async def sync(
        self, slice_: Slice, directory: Path, on_sent: OnSent | None = None
    ) -> AsyncIterator[SyncResult | TpuTuiError]:
        """Copy a working tree to every worker; yield a result or an error for each worker.

        `on_sent` receives the progress of each worker.
        """
        from tui.ssh.sync.upload import sync_tree

        self._connections.require_changes("copying to workers")
        if not directory.is_dir():
            raise UsageError(f"{directory} is not a directory", remedy="give the directory to copy")
        fleet = await self._connections.fleet(slice_)
        ranks, run_root = range(len(slice_.workers)), self._connections.settings.run_root
        async for answer in sync_tree(fleet, ranks, directory, run_root=run_root, on_sent=on_sent):
            yield answer

    async def ssh_command(self, slice_: Slice, worker: int) -> list[str]:
        """Return the `ssh` command line that opens a shell on one worker and checks its host key as tpu-tui does."""
        from tui.ssh.config.ssh_command import shell_command

        require_workers(slice_)
        known_slice = await self._connections.with_login_facts(slice_)
        return await shell_command(known_slice.workers[worker], await self._connections.access())

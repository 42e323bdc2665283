"""Launches: plan and check them, and hand them to the run's keeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from tui.checks.check_row import CheckRow
from tui.operator.connections import Connections, require_workers
from tui.pod.slice import Slice
from tui.runs.keeper.start import start_keeper
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_request import LaunchRequest, check_request, make_preflight, run_from
from tui.runs.launch.launch_spec import LaunchSpec, check_spec, dry_run
from tui.runs.launch.on_end_actions import describe_actions
from tui.runs.record.run_directory import RunDirectory
from tui.ssh.config.access import ACCEPT_NEW


class Launches:
    """Turns requests into runs, which `operator.runs` then follows."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def plan(self, request: LaunchRequest) -> LaunchSpec:
        """Return everything that a keeper needs, after prompting for a passphrase where needed; nothing is started.

        Raises UsageError for a job that no worker could run, OutOfReachError for a slice that is not ready.
        """
        request = await self._on_workers(request)
        check_request(request)
        settings = self._connections.settings
        require_workers(request.slice_)
        known_slice = await self._connections.with_login_facts(request.slice_)
        access = self._connections.access_to(known_slice, await self._connections.access_for_keeper())
        run = run_from(request, known_slice, settings)
        spec = LaunchSpec(
            run,
            dict(request.job.env),
            access,
            request.sync,
            keeper_timeouts=KeeperTimeouts.from_thresholds(settings.thresholds),
            timeouts=request.timeouts,
            preflight=make_preflight(request, settings) if request.preflight else None,
        )
        check_spec(spec)
        return spec

    async def _on_workers(self, request: LaunchRequest) -> LaunchRequest:
        """Return the request; for a TPU Node, with the instance group that drives it as its slice."""
        node = request.slice_
        if not (node.is_tpu_node and node.instance_group):
            return request
        return replace(request, slice_=await self._connections.inventory.get(node.instance_group, node.zone))

    async def check(self, request: LaunchRequest) -> AsyncIterator[CheckRow]:
        """Yield a row for everything that can fail this launch (see `prevents_launch`), as soon as it is known."""
        from tui.operator.launch_checks import check_before_launch

        async for row in check_before_launch(self._connections, await self._on_workers(request)):
            yield row

    async def check_buckets(
        self, slice_: Slice, texts: Sequence[str], env: Mapping[str, str] | None = None
    ) -> list[CheckRow]:
        """Return a row for each bucket that the texts or the variables' values name with `gs://`."""
        from tui.operator.launch_checks import check_buckets

        return await check_buckets(self._connections.settings, slice_, texts, env)

    def describe(self, spec: LaunchSpec) -> str:
        """Return exactly what would run and on which workers, with secrets masked."""
        return dry_run(spec) + describe_actions(spec.run)

    async def start(self, spec: LaunchSpec) -> RunDirectory:
        """Create the run directory and start the run's keeper; the run's events record all else.

        The user is prompted first, e.g. for unknown host keys, because a keeper cannot prompt.
        """
        self._connections.require_changes("launching")
        if self._connections.prompter is not None:
            spec = await self._ask_beforehand(spec)
        directory = RunDirectory.create(self._connections.settings.runs_home, spec.run)
        await asyncio.to_thread(start_keeper, directory, spec)
        return directory

    async def _ask_beforehand(self, spec: LaunchSpec) -> LaunchSpec:
        """Log in to the workers whose login may prompt the user; return the spec with the answers.

        These are the workers with an unknown host key, and worker 0 for the others, which accept the same keys.
        """
        from tui.ssh.fleet import Fleet

        async with Fleet(spec.run.workers, spec.access, prompter=self._connections.prompter) as fleet:
            unknown = [] if spec.access.host_keys == ACCEPT_NEW else await fleet.unknown_hosts()
            await asyncio.gather(*(fleet.connect(index) for index in {*unknown, spec.run.workers[0].index}))
            return replace(spec, access=fleet.access)

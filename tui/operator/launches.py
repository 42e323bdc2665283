"""Launches: planned, looked at before, and given to the run's keeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.errors import UsageError
from tui.operator.run_events import Following
from tui.runs.launch.launch_request import LaunchRequest, check_request, run_from
from tui.runs.record.run_directory import RunDirectory

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow
    from tui.runs.launch.launch_spec import LaunchSpec


class Launching(Following):
    """Makes runs of requests; what follows a run then looks at its directory."""

    async def plan_launch(self, request: LaunchRequest) -> LaunchSpec:
        """Everything a keeper needs, with all questions to the person asked; nothing is started.

        Raises UsageError for what no worker could run, OutOfReachError for a slice that is not ready.
        """
        from tui.runs.keeper_timeouts import KeeperTimeouts
        from tui.runs.launch.launch_spec import LaunchSpec, check_spec
        from tui.runs.launch.preflight import Look

        check_request(request)
        keeper_timeouts = KeeperTimeouts.from_thresholds(self.settings.thresholds)
        self._require_workers(request.slice_)
        name = None if self.settings.hosts else request.slice_.name
        access = replace(await self.access_to_hand_on(), slice=name)
        known = await self.inventory.host_keys(request.slice_)
        run = run_from(request, known, self.settings)
        spec = LaunchSpec(
            run,
            dict(request.env),
            access,
            request.sync,
            keeper_timeouts=keeper_timeouts,
            timeouts=request.timeouts,
            look=Look.before(request, self.settings) if request.look else None,
        )
        check_spec(spec)
        return spec

    async def check_launch(self, request: LaunchRequest) -> AsyncIterator[CheckRow]:
        """What can fail this launch, a row as soon as it is known; its `hinders` tells whether it does."""
        from tui.operator.checks import check_before_launch

        async for row in check_before_launch(self, request):
            yield row

    def dry_run(self, spec: LaunchSpec) -> str:
        """Exactly what would run, on which workers, secrets masked."""
        from tui.runs.keeper.on_end import describe
        from tui.runs.launch.launch_spec import dry_run

        return dry_run(spec) + describe(spec.run)

    async def launch(self, spec: LaunchSpec) -> RunDirectory:
        """Make the run directory and give the run to its keeper; what follows is in its events.

        Unknown host keys are asked about first, for a keeper can ask nobody.
        """
        from tui.runs.keeper.start import start_keeper

        if self.settings.read_only:
            raise UsageError("launching is refused by --read-only")
        if self.prompter is not None:
            spec = await self._with_questions_asked(spec)
        directory = RunDirectory.create(self.settings.runs_home, spec.run)
        await asyncio.to_thread(start_keeper, directory, spec)
        return directory

    async def _with_questions_asked(self, spec: LaunchSpec) -> LaunchSpec:
        """Log in where somebody may have to be asked; what was answered goes to the keeper.

        That is to workers whose host key nobody vouches for, and to one of the others: what keys it takes, they take.
        """
        from tui.ssh.config.access import ACCEPT_NEW
        from tui.ssh.fleet import Fleet

        async with Fleet(spec.run.workers, spec.access, prompter=self.prompter) as fleet:
            strangers = [] if spec.access.host_keys == ACCEPT_NEW else fleet.strangers()
            await asyncio.gather(*(fleet.connect(index) for index in {*strangers, spec.run.workers[0].index}))
            return replace(spec, access=fleet.access)

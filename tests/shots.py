"""The README's screenshots: the console on a local pod whose workers train (`python -m tests.shots DIRECTORY`)."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tui.commands import demo
from tui.commands.terminal.output import Output
from tui.console.app import ConsoleApp
from tui.operator import LaunchRequest, Operator
from tui.pod.job_options import JobOptions
from tui.runs.record.run_directory import RunDirectory
from tui.settings import LOCAL_PROFILE, load

WORKERS = 4
STEPS_TO_SHOW = 60
"""Training lines of each core before the picture is taken, enough for the shape of the curves."""
LOOK_INTERVAL = 2.0
SIZE = (160, 46)


async def trained(operator: Operator, directory: RunDirectory) -> None:
    """Wait until every core has printed enough steps."""
    while True:
        snapshot = await operator.logs.snapshot(directory)
        if len(snapshot) == WORKERS and snapshot.samples >= STEPS_TO_SHOW * WORKERS:
            return
        if operator.runs.status_of(directory).state.is_over:
            raise SystemExit(f"the run ended: {operator.runs.status_of(directory).cause}")
        await asyncio.sleep(LOOK_INTERVAL)


async def take(pod: dict[str, Any], directory: Path) -> None:
    """Train until there is something to see, and take both screens."""
    operator = Operator(load({"profile": LOCAL_PROFILE}))
    slice_ = await operator.slices.get(pod["slices"][0])
    request = LaunchRequest(slice_, JobOptions(tuple(demo.train_command(pod)), runtime="cpu"), name="resnet")
    run = await operator.launches.start(await operator.launches.plan(request))
    await trained(operator, run)
    app = ConsoleApp(operator, open_run=run)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(6.0)
        app.save_screenshot("run.svg", path=str(directory))
        await pilot.press("escape")
        await pilot.pause(6.0)
        app.save_screenshot("pod.svg", path=str(directory))
    stopper = Operator(load({"profile": LOCAL_PROFILE}))
    async for answer in stopper.runs.stop(run, grace=5.0):
        print(f"worker {answer.worker}: stopped {answer.confirmed}")
    await stopper.close()


def main() -> int:
    """Start a pod, take the pictures, leave nothing behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.absolute()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TPU_TUI_HOME"] = home
        with demo.local_pod(WORKERS, 1) as pod:
            demo.make_shards(pod, WORKERS, Output())
            asyncio.run(take(pod, directory))
    print(f"{directory}/run.svg and pod.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())

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
FAILURE = ("--steps", "300", "--interval", "0.1", "--straggler", "1", "--crash-at", "240", "--crash-worker", "2")
"""The rehearsal of a run whose worker 2 fails, with a slow core 1."""


async def wait_for_steps(operator: Operator, directory: RunDirectory) -> None:
    """Wait until every core has printed enough steps."""
    while True:
        snapshot = await operator.logs.snapshot(directory)
        if len(snapshot) == WORKERS and snapshot.samples >= STEPS_TO_SHOW * WORKERS:
            return
        if operator.runs.status_of(directory).state.is_over:
            raise SystemExit(f"the run ended: {operator.runs.status_of(directory).cause}")
        await asyncio.sleep(LOOK_INTERVAL)


async def wait_for_end(operator: Operator, directory: RunDirectory) -> None:
    """Wait until the run has ended."""
    while True:
        if operator.runs.status_of(directory).state.is_over:
            return
        await asyncio.sleep(LOOK_INTERVAL)


async def show(operator: Operator, run: RunDirectory | None, pictures: dict[str, str], directory: Path) -> None:
    """Open the console and take a picture after each key; `pictures` maps names to keys, "" for none."""
    app = ConsoleApp(operator, open_run=run)
    async with app.run_test(size=SIZE) as pilot:
        for name, key in pictures.items():
            if key:
                await pilot.press(key)
            await pilot.pause(6.0)
            app.save_screenshot(f"{name}.svg", path=str(directory))


async def take(pod: dict[str, Any], directory: Path) -> None:
    """Take pictures of a training run, the pod and a launch form, then of a failed run."""
    operator = Operator(load({"profile": LOCAL_PROFILE}))
    slice_ = await operator.slices.get(pod["slices"][0])
    request = LaunchRequest(slice_, JobOptions(tuple(demo.train_command(pod)), runtime="cpu"), name="resnet")
    run = await operator.launches.start(await operator.launches.plan(request))
    await wait_for_steps(operator, run)
    await show(operator, run, {"run": "", "pod": "escape", "launch": "n"}, directory)
    operator = Operator(load({"profile": LOCAL_PROFILE}))
    async for answer in operator.runs.stop(run, grace=5.0):
        print(f"worker {answer.worker}: stopped {answer.confirmed}")
    rehearsal = (*demo.rehearsal_command(), *FAILURE)
    request = LaunchRequest(slice_, JobOptions(rehearsal, runtime="cpu"), name="resnet", preflight=False)
    run = await operator.launches.start(await operator.launches.plan(request))
    await wait_for_end(operator, run)
    await show(operator, run, {"failure": ""}, directory)


def main() -> int:
    """Start a pod, take the pictures and remove the pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.absolute()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TPU_TUI_HOME"] = home
        with demo.local_pod(WORKERS, 1) as pod:
            demo.make_shards(pod, WORKERS, Output())
            asyncio.run(take(pod, directory))
    print(f"{directory}: run.svg, pod.svg, launch.svg and failure.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())

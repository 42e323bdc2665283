"""`demo`: start a local pod and a training job on it, and open the console."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.console import open_console, require_terminal
from tui.commands.local import add_shape
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import TpuTuiError, UsageError
from tui.pod.run import REHEARSAL_MODULE
from tui.procs.python_env import module_command
from tui.settings import LOCAL_PROFILE
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory

POD_READY_TIMEOUT_S = 60.0
"""How long a local pod may take to start."""
POD_CLOSE_TIMEOUT_S = 20.0
"""How long a local pod may take to stop what runs on it."""
TRAINER_NEEDS = ("torch", "torch_xla", "torchvision", "webdataset")
DEMO_SHARDS = "demo-shards"
"""Folder of the demo's shards in the local pod's bucket."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    demo = commands.add("demo", help="start a local pod with a training job and open the console on it")
    add_shape(demo)
    demo.add_argument(
        "--job",
        choices=("train", "rehearsal"),
        default="train",
        help="what to run (default: train); rehearsal only prints made-up lines",
    )
    demo.set_defaults(run_blocking=run_demo, changes=True)


def run_demo(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Start a pod, launch a job on it and open the console; when the console closes, clean up everything."""
    from tui.localpod.requirements import check_memory, require_linux

    require_linux()
    require_terminal()
    if args.job == "train":
        _require_trainer()
        check_memory(args.workers, args.cores)
    out.note(f"Starting a pod of {format_count(args.workers, 'worker')} on this machine …")
    with local_pod(args.workers, args.cores) as pod:
        demo_flags = {**flags, "profile": LOCAL_PROFILE}
        if args.job == "train":
            make_shards(pod, args.workers * args.cores, out)
        argv = train_command(pod) if args.job == "train" else rehearsal_command()
        directory = asyncio.run(_launch(demo_flags, pod["slices"][0], argv, args.job))
        try:
            return open_console(demo_flags, open_run=directory, demo=True, default_command=argv)
        finally:
            out.note("Stopping the pod and everything running on it …")
            asyncio.run(_stop_runs(demo_flags, out))


def _require_trainer() -> None:
    missing = [name for name in TRAINER_NEEDS if not importlib.util.find_spec(name)]
    if missing:
        raise UsageError(
            "the demo's training job needs PyTorch/XLA",
            why=f"not installed: {', '.join(missing)}",
            remedy="install it with make demo, or use tpu-tui demo --job rehearsal, which only prints training lines",
        )


@contextlib.contextmanager
def local_pod(workers: int, cores: int) -> Iterator[dict[str, Any]]:
    """Run `local up` in a process of its own, so that a busy pod never slows the console; yield its announcement."""
    command = [*module_command("tui.cli"), "local", "up", "--json", "--with-parent"]
    process = subprocess.Popen(
        [*command, "--workers", str(workers), "--cores", str(cores)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield _announcement(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(POD_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()


def _announcement(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    timer = threading.Timer(POD_READY_TIMEOUT_S, process.terminate)
    timer.start()
    try:
        received = process.stdout.readline()
    finally:
        timer.cancel()
    if not received.endswith(b"\n"):
        raise TpuTuiError("the local pod did not start", why="see above, or it took longer than a minute")
    document: dict[str, Any] = json.loads(received)
    return document


def make_shards(pod: Mapping[str, Any], cores: int, out: Output) -> None:
    """Generate the demo's images and upload their shards to the pod's bucket. Raises TpuTuiError on failure."""
    out.note("Generating images and writing their shards to the pod's bucket …")
    command = [*module_command("trainer.shards"), *shard_arguments(pod, cores)]
    result = subprocess.run(
        command, env={**os.environ, "STORAGE_EMULATOR_HOST": pod["storage"]}, stdout=subprocess.DEVNULL, check=False
    )
    if result.returncode:
        raise TpuTuiError("the demo's shards were not written", why=f"trainer.shards exited with {result.returncode}")


def shard_arguments(pod: Mapping[str, Any], cores: int) -> list[str]:
    """Return the arguments for `trainer.shards`: a small learnable set, several shards per core."""
    train, val = 1024 * max(cores, 4), 128 * max(cores, 4)
    shape = ["--train", str(train), "--val", str(val), "--samples-per-shard", "256"]
    return ["shapes", "--out", f"{pod['bucket']}/{DEMO_SHARDS}", *shape]


def train_command(pod: Mapping[str, Any]) -> list[str]:
    """Return the demo's training command, as it would be typed after `launch --`."""
    data = f"{pod['bucket']}/{DEMO_SHARDS}"
    small = ["--model", "resnet10", "--batch-size", "32", "--log-steps", "2", "--epochs", "30"]
    # Four trainers keep this machine busy; with nice, the console on it still reacts at once.
    return ["nice", "python3", "-m", "trainer.train", "--data", data, *small]


def rehearsal_command() -> list[str]:
    """Return the rehearsal job, which prints made-up training lines and says so."""
    return ["python3", "-m", REHEARSAL_MODULE]


async def _launch(flags: Mapping[str, Any], slice_name: str, argv: Sequence[str], job: str) -> RunDirectory:
    from tui.operator import LaunchRequest, Operator
    from tui.pod.job_options import JobOptions
    from tui.settings import load

    async with Operator(load(flags)) as operator:
        options = JobOptions(tuple(argv), runtime=operator.settings.runtime)
        request = LaunchRequest(await operator.slices.get(slice_name), options, name=f"demo-{job}")
        return await operator.launches.start(await operator.launches.plan(request))


async def _stop_runs(flags: Mapping[str, Any], out: Output) -> None:
    """Stop the runs on the demo's pod, so that every run's record says how it ended."""
    from tui.operator import Operator
    from tui.settings import load

    async with Operator(load(flags)) as operator:
        for status in operator.runs.list_statuses():
            if status.run.profile == LOCAL_PROFILE and not status.state.is_over:
                await _stop(operator, operator.runs.open(status.run.id), out)


async def _stop(operator: Operator, directory: RunDirectory, out: Output) -> None:
    try:
        async for answer in operator.runs.stop(directory, grace=5.0):
            if not answer.confirmed:
                out.note(f"worker {answer.worker}: not confirmed ({answer.detail})")
    except TpuTuiError as error:
        out.problem(error)

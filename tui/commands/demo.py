"""`demo`: a local pod, a training job on it, and the console on that."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.commands.console import open_console, require_terminal
from tui.commands.terminal.output import Output
from tui.errors import TpuTuiError, UsageError
from tui.pod.run import REHEARSAL_MODULE
from tui.settings import LOCAL_PROFILE

if TYPE_CHECKING:
    from tui.operator import Operator, RunDirectory
from tui.commands.local import add_shape
from tui.commands.parser.commands import Commands

POD_READY_TIMEOUT_S = 60.0
"""Seconds a local pod may take until it announces itself."""
POD_CLOSE_TIMEOUT_S = 20.0
"""Seconds a local pod may take to end what ran on it."""
TRAINER_NEEDS = ("torch", "torch_xla", "torchvision", "webdataset")
DEMO_SHARDS = "demo-shards"
"""Folder in the local pod's bucket that the demo's shards are written to."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    demo = commands.add("demo", help="start a local pod with a training job on it, and open the console on that")
    add_shape(demo)
    demo.add_argument(
        "--job", choices=("train", "rehearsal"), default="train", help="rehearsal prints, it does not train"
    )
    demo.set_defaults(run_blocking=run_demo, changes=True)


def run_demo(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Start a pod, put a job on it and open the console; when the console closes, nothing is left."""
    from tui.localpod.requirements import check_memory, require_linux

    require_linux()
    require_terminal()
    if args.job == "train":
        _require_trainer()
        check_memory(args.workers, args.cores)
    out.note(f"Starting a pod of {args.workers} workers on this machine …")
    with local_pod(args.workers, args.cores) as pod:
        demo_flags = {**flags, "profile": LOCAL_PROFILE}
        if args.job == "train":
            make_shards(pod, args.workers * args.cores, out)
        argv = train_command(pod) if args.job == "train" else rehearsal_command()
        directory = asyncio.run(_launch(demo_flags, pod["slices"][0], argv, args.job))
        try:
            return open_console(demo_flags, open_run=directory, demo=True, default_command=argv)
        finally:
            out.note("Ending the pod and all that runs on it …")
            asyncio.run(_stop_runs(demo_flags, out))


def _require_trainer() -> None:
    missing = [name for name in TRAINER_NEEDS if not importlib.util.find_spec(name)]
    if missing:
        raise UsageError(
            "the demo's training job needs PyTorch/XLA",
            why=f"not installed: {', '.join(missing)}",
            remedy="make demo installs it; or tpu-tui demo --job rehearsal, which prints the lines without training",
        )


@contextlib.contextmanager
def local_pod(workers: int, cores: int) -> Iterator[dict[str, Any]]:
    """A `local up` of our own in another process, so that a busy pod never slows the console."""
    words = [sys.executable, "-m", "tui.cli", "local", "up", "--json", "--with-parent"]
    process = subprocess.Popen(
        [*words, "--workers", str(workers), "--cores", str(cores)],
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
    os.set_blocking(process.stdout.fileno(), False)
    deadline = time.monotonic() + POD_READY_TIMEOUT_S
    received = b""
    while b"\n" not in received and time.monotonic() < deadline:
        select.select([process.stdout], [], [], 0.5)
        chunk = process.stdout.read()
        if chunk == b"":
            break
        received += chunk or b""
    if b"\n" not in received:
        raise TpuTuiError("the local pod did not start", why="it said why above, or took longer than a minute")
    document: dict[str, Any] = json.loads(received.partition(b"\n")[0])
    return document


def make_shards(pod: Mapping[str, Any], cores: int, out: Output) -> None:
    """Make the demo's images and upload their shards to the pod's bucket. Raises TpuTuiError when that fails."""
    out.note("Making the demo's images and their shards in the pod's bucket …")
    words = [sys.executable, "-m", "trainer.shards", *shard_arguments(pod, cores)]
    made = subprocess.run(words, env={**os.environ, **_storage(pod)}, stdout=subprocess.DEVNULL, check=False)
    if made.returncode:
        raise TpuTuiError("the demo's shards could not be made", why=f"trainer.shards ended with {made.returncode}")


def _storage(pod: Mapping[str, Any]) -> dict[str, str]:
    return {"STORAGE_EMULATOR_HOST": str(pod["storage"])}


def shard_arguments(pod: Mapping[str, Any], cores: int) -> list[str]:
    """What the demo asks of `trainer.shards`: a small learnable set, several shards for every core."""
    train, val = 1024 * max(cores, 4), 128 * max(cores, 4)
    shape = ["--train", str(train), "--val", str(val), "--samples-per-shard", "256"]
    return ["shapes", "--out", f"{pod['bucket']}/{DEMO_SHARDS}", *shape]


def train_command(pod: Mapping[str, Any]) -> list[str]:
    """The demo's training command, as a person would type it after `launch --`."""
    data = f"{pod['bucket']}/{DEMO_SHARDS}"
    small = ["--model", "resnet10", "--batch-size", "32", "--log-steps", "2", "--epochs", "30"]
    # Four trainers want all of this machine: keys of the console on it come before their next step.
    return ["nice", "python3", "-m", "trainer.train", "--data", data, *small]


def rehearsal_command() -> list[str]:
    """The rehearsal job: it prints the trainer's lines and says that it does not train."""
    return ["python3", "-m", REHEARSAL_MODULE]


async def _launch(flags: Mapping[str, Any], slice_name: str, argv: Sequence[str], job: str) -> RunDirectory:
    from tui.operator import LaunchRequest, Operator
    from tui.pod.job_options import JobOptions
    from tui.settings import load

    operator = Operator(load(flags))
    try:
        options = JobOptions(tuple(argv), runtime=operator.settings.runtime)
        request = LaunchRequest(await operator.slices.get(slice_name), options, name=f"demo-{job}")
        return await operator.launches.start(await operator.launches.plan(request))
    finally:
        await operator.close()


async def _stop_runs(flags: Mapping[str, Any], out: Output) -> None:
    """Stop what still runs on the demo's pod, so that every run's record says how it ended."""
    from tui.operator import Operator
    from tui.settings import load

    operator = Operator(load(flags))
    try:
        for status in operator.runs.list_statuses():
            if status.run.profile == LOCAL_PROFILE and not status.state.is_over:
                await _stop(operator, operator.runs.open(status.run.id), out)
    finally:
        await operator.close()


async def _stop(operator: Operator, directory: RunDirectory, out: Output) -> None:
    try:
        async for answer in operator.runs.stop(directory, grace=5.0):
            if not answer.confirmed:
                out.note(f"worker {answer.worker}: not confirmed ({answer.detail})")
    except TpuTuiError as error:
        out.problem(error)

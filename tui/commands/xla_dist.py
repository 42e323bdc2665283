"""`xla_dist`: launch with the command line of torch_xla's documents.

The options are those of `torch_xla.distributed.xla_dist` (pytorch/xla v1.13.0 and v2.0.0).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tui.commands.launch import add_job_options, job_options, start
from tui.commands.parser.argument_types import string
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.pod.job_options import JobOptions

if TYPE_CHECKING:
    from tui.operator import Operator

_RUNTIME = "xrt"
_JOB_OPTIONS = ("docker_container", "docker_image", "docker_run_flag", "conda_env", "env", "tpuvm_server_port")
_EXPANDED = "$`"


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add("xla_dist", help="launch with an unchanged command line of torch_xla's xla_dist")
    parser.add_argument("--tpu", dest="slice", required=True, type=string, metavar="SLICE", help="the slice")
    add_job_options(parser, _JOB_OPTIONS)
    parser.add_argument("--vm", action="append", metavar="VM", help="no effect: the workers are those of the slice")
    parser.add_argument(
        "--restart-tpuvm-pod-server", action="store_true", help="no effect: a run always starts with a new XRT server"
    )
    parser.add_argument("-d", "--detach", action="store_true", help="return as soon as the run has started")
    parser.add_argument("--dry-run", action="store_true", help="print the equivalent launch and what would run")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command; one with options goes after --")
    parser.set_defaults(run=run_xla_dist, takes_job=True, changes=True, many="words")


async def run_xla_dist(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Show the equivalent launch, then launch."""
    from tui.operator import LaunchRequest
    from tui.settings.command_line import launch_command

    args.argv = [*args.words, *args.argv]
    if not args.argv:
        raise UsageError("no command to launch", remedy="tpu-tui xla_dist --tpu=SLICE -- COMMAND …")
    job = job_options(args, _RUNTIME)
    request = LaunchRequest(slice_=await operator.slices.get(args.slice), job=job, preflight=True)
    spec = await operator.launches.plan(request)
    line = launch_command(operator.settings, args.slice, job)
    for note in _differences(args, job):
        out.note(note)
    if not args.dry_run:
        out.note(f"The same as: {line}")
        return await start(request, spec, operator, out, detach=args.detach)
    text = operator.launches.describe(spec)
    if out.as_json:
        redacted = job.without_secrets()
        answer = {"slice": spec.run.slice, "command": list(redacted.argv), "env": dict(redacted.env)}
        out.document({**answer, "runtime": job.runtime, "conda_env": job.conda_env, "launch": line, "dry_run": text})
    else:
        out.text(f"{line}\n\n{text}".rstrip("\n"))
    return 0


def _differences(args: argparse.Namespace, job: JobOptions) -> Iterator[str]:
    """Yield a note about each part of the line that xla_dist treats differently."""
    if args.vm:
        yield "--vm has no effect: the run starts on the workers of the slice."
    if args.restart_tpuvm_pod_server:
        yield "--restart-tpuvm-pod-server has no effect: a run always starts with a new XRT server."
    words = (*job.argv, *job.docker_run_flag, *job.env.values())
    if any(sign in word for word in words for sign in _EXPANDED):
        yield "Words with $ or ` reach the job as they are; xla_dist lets the workers expand them (use sh -c '…')."

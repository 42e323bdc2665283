"""`launch`: start a command on every worker of a slice, or on none."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.attach import KeeperSupervisor, announcing_detach, exit_code, follow
from tui.commands.parser.argument_types import as_text, directory, integer, seconds, string
from tui.commands.parser.commands import Commands, Parser
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.pod.job_options import LAUNCH_OPTIONS, JobOptions, Option, OptionKind
from tui.pod.run import RunState
from tui.pod.run_names import readable_name

if TYPE_CHECKING:
    from tui.operator import LaunchRequest, LaunchSpec, Operator, RunDirectory, RunStatus


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    launch = commands.add("launch", help="start a command on every worker of a slice, or on none")
    launch.add_argument("slice", metavar="SLICE -- COMMAND …", help="the slice, and the command for its workers")
    launch.add_argument("--name", type=string, help="name of the run (default: the slice's name)")
    launch.add_argument("--sync", type=directory, metavar="DIR", help="first copy this working tree to every worker")
    add_job_options(launch, LAUNCH_OPTIONS)
    launch.add_argument("--skip-checks", action="store_true", help="skip the checks before launching")
    launch.add_argument(
        "--phase-timeout",
        action="append",
        default=[],
        metavar="PHASE=S",
        help="time limit in seconds for a worker to connect (120), prepare (90) or sync (3600); repeatable",
    )
    launch.add_argument("-d", "--detach", action="store_true", help="return as soon as the run has started")
    launch.add_argument("--dry-run", action="store_true", help="print exactly what would run, without running it")
    launch.set_defaults(run=launch_run, takes_job=True, changes=True)


def add_job_options(parser: Parser, names: Iterable[str]) -> None:
    """Add the job's options of these names to a command."""
    for name in names:
        parser.add_argument("--" + name.replace("_", "-"), **_argument(LAUNCH_OPTIONS[name]))


def _argument(option: Option) -> dict[str, Any]:
    """Return the argparse arguments for one of the job's options; an option not given is None."""
    if option.choices:
        return {"choices": tuple(option.choices), "help": option.help}
    if option.kind in (OptionKind.WORDS, OptionKind.VARIABLES):
        return {"action": "append", "metavar": option.metavar, "help": option.help}
    return {"type": _TYPES[option.kind], "metavar": option.metavar, "help": option.help}


_TYPES: Mapping[OptionKind, Callable[[str], Any]] = {
    OptionKind.TEXT: string,
    OptionKind.COUNT: integer,
    OptionKind.SECONDS: seconds,
}


def job_options(args: argparse.Namespace, runtime: str) -> JobOptions:
    """Return the job's options from the command line; `runtime` applies where it names none."""
    values = {name: value for name in LAUNCH_OPTIONS if (value := getattr(args, name, None)) is not None}
    pairs = values.pop("env", [])
    env = _parse_env(pairs)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    by_name = tuple(name for name in env if name in pairs)
    return JobOptions(**{"argv": tuple(args.argv), "runtime": runtime, "env": env, "env_by_name": by_name, **values})


def _parse_env(pairs: list[str]) -> dict[str, str]:
    """Parse the job's variables: `NAME=value`, or `NAME` for the value it has in this shell."""
    env = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.replace("_", "a").isalnum() or name[0].isdigit() or not name.isascii():
            raise UsageError(f"{name!r} is not a valid variable name", remedy="use --env NAME=value")
        if not equals and name not in os.environ:
            raise UsageError(f"{name} is not set in this shell", remedy=f"export {name}, or use --env {name}=value")
        env[name] = value if equals else os.environ[name]
    return env


def _name_for_a_run(name: str, out: Output) -> str:
    """Return the name in the form that a run's ID allows; print a note if that differs."""
    run_name = readable_name(as_text(name))
    if run_name != name:
        out.note(f"The run is called {run_name}: an ID has only ASCII letters, digits and . _ -, at most 100.")
    return run_name


async def launch_run(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Launch on every worker or on none; then follow the run, unless detached."""
    from tui.operator import LaunchRequest, PhaseTimeouts

    if not args.argv:
        raise UsageError("no command to launch", remedy="tpu-tui launch SLICE -- COMMAND …")
    job, timeouts = job_options(args, operator.settings.runtime), PhaseTimeouts.parse(args.phase_timeout)
    name = None if args.name is None else _name_for_a_run(args.name, out)
    request = LaunchRequest(
        slice_=await operator.slices.get(args.slice),
        job=job,
        name=name,
        sync=args.sync,
        preflight=not args.skip_checks,
        timeouts=timeouts,
    )
    spec = await operator.launches.plan(request)
    if args.dry_run:
        text = operator.launches.describe(spec)
        if out.as_json:
            out.document({"run": spec.run.id, "slice": spec.run.slice, "dry_run": text})
        else:
            out.text(text.rstrip("\n"))
        return 0
    return await start(request, spec, operator, out, detach=args.detach)


async def start(request: LaunchRequest, spec: LaunchSpec, operator: Operator, out: Output, *, detach: bool) -> int:
    """Start what was planned, and follow it unless detached; return the exit code."""
    if spec.note:
        out.note(spec.note)
    if request.preflight and any("gs://" in text for text in (*request.job.argv, *request.job.env.values())):
        await _check_buckets(request, operator, out)
    directory = await _launch(spec, operator, out)
    answer = {
        "run": directory.id,
        "slice": directory.run.slice,
        "workers": len(directory.run.workers),
        "directory": str(directory.path),
    }
    if not detach:
        if out.as_json:
            out.line(answer)
        else:
            out.text(directory.id)
        return await follow(operator, directory, out)
    status = await _until_started(operator, directory, out)
    if out.as_json:
        out.document(answer)
    else:
        out.text(directory.id)
    return 0 if status.state is RunState.RUNNING else exit_code(status)


async def _launch(spec: LaunchSpec, operator: Operator, out: Output) -> RunDirectory:
    """Hand the run to its keeper; on Ctrl-C, say how to follow the run once it exists."""
    try:
        return await operator.launches.start(spec)
    except asyncio.CancelledError:
        if operator.runs.is_known(spec.run.id):
            with announcing_detach(spec.run.id, out):
                raise
        raise


async def _until_started(operator: Operator, directory: RunDirectory, out: Output) -> RunStatus:
    """Print events until every worker is running or the launch has failed."""
    from tui.operator import Event

    supervisor = KeeperSupervisor(operator, directory, out)
    with announcing_detach(directory.id, out), supervisor:
        async for item in operator.runs.watch(directory).events():
            await supervisor.on_event(item)
            if isinstance(item, Event) and item.kind != "state":
                continue
            status = operator.runs.status_of(directory)
            if status.state is RunState.RUNNING or status.state.is_over:
                return status
    return operator.runs.status_of(directory)


async def _check_buckets(request: LaunchRequest, operator: Operator, out: Output) -> None:
    """Check the buckets that the command names and print warnings. Raises the error that prevents the launch."""
    from tui.operator import digest, failed_checks_error

    rows = await operator.launches.check_buckets(request.slice_, request.job.argv, request.job.env)
    check_digest = digest([row for row in rows if row.prevents_launch or row.status == "warn"])
    for finding in check_digest.findings:
        out.note(finding.sentence + (f"\n  → {finding.remedy}" if finding.remedy else ""))
    if not check_digest.ok:
        raise failed_checks_error(check_digest.findings)

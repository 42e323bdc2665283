"""`slices create`: create a slice, or several through the queue, and wait until they are ready."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.machine_options import add_machine_options, make_request
from tui.commands.parser.argument_types import integer, string
from tui.commands.parser.commands import Commands, Parser
from tui.commands.parser.gcloud_types import disk, duration, moment
from tui.commands.terminal.output import Output, to_json_text
from tui.commands.terminal.steps import CreationSteps
from tui.errors import UsageError

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.creation.slice_request import CreationStep, QueueRequest, SliceRequest

_QUEUE_OPTIONS = {
    "valid_for_s": "--valid-for",
    "valid_until": "--valid-until",
    "nodes": "--nodes",
    "node_prefix": "--node-prefix",
    "node_id": "--node-id",
}
"""The options that need --queued, by their names in `QueueRequest`."""


def add_create(actions: Commands) -> None:
    """Add the action's parser, with gcloud's names for its options."""
    create = actions.add("create", help="create a slice and wait until it is ready")
    create.add_argument("slice", metavar="NAME", help="NAME, or ZONE/NAME if several zones are configured")
    _add_slice_options(create)
    _add_queue_options(create)
    create.add_argument("--detach", "--async", action="store_true", help="return as soon as the request is accepted")
    create.add_argument(
        "--dry-run", action="store_true", help="show the request and the same command of gcloud; send nothing"
    )
    create.set_defaults(run=create_slice, changes=True)


def _add_slice_options(create: Parser) -> None:
    add = create.add_argument
    add("--type", metavar="TYPE", type=string, help="a type, e.g. v3-32, or with --topology a generation, e.g. v4")
    add("--accelerator-type", metavar="TYPE", type=string, help="accelerator type, e.g. v3-32")
    add("--topology", metavar="AxB[xC]", type=string, help="chips per side, e.g. 2x2x2")
    add(
        "--version",
        "--runtime-version",
        metavar="RUNTIME",
        dest="runtime_version",
        type=string,
        help="runtime version, e.g. tpu-ubuntu2204-base",
    )
    add(
        "--architecture",
        choices=("vm", "node"),
        help="vm: TPU VMs (default); node: a TPU Node, controlled from an instance group",
    )
    add("--spot", action="store_true", help="cheaper, but can be preempted at any time")
    add("--preemptible", action="store_true", help="like --spot, and at most for 24 hours")
    add("--reserved", action="store_true", help="use the project's reservations")
    add_machine_options(create)
    add(
        "--data-disk",
        metavar="source=PATH[,mode=MODE]",
        type=disk,
        action="append",
        help="a disk to attach, read-write or read-only; repeatable",
    )
    add("--range", metavar="CIDR", dest="cidr_range", type=string, help="address range of the workers")
    add("--queue-count", metavar="N", type=integer, help="network queues of each worker")
    add("--shielded-secure-boot", dest="secure_boot", action="store_true", help="start the workers with secure boot")


def _add_queue_options(create: Parser) -> None:
    add = create.add_argument
    add("--queued", action="store_true", help="wait for capacity as a queued resource, for days if need be")
    add(
        "--valid-for",
        "--valid-until-duration",
        metavar="TIME",
        dest="valid_for_s",
        type=duration,
        help="leave the queue after this time, e.g. 6h",
    )
    add(
        "--valid-until",
        "--valid-until-time",
        metavar="TIME",
        type=moment,
        help="leave the queue at this time, e.g. 2026-01-31T18:00:00Z",
    )
    add("--nodes", "--node-count", metavar="N", type=integer, help="create N slices, called PREFIX-0 and so on")
    add("--node-prefix", metavar="PREFIX", type=string, help="default: NAME")
    add("--node-id", metavar="NAME", type=string, help="name of the slice, if not that of the queued resource")


async def create_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create the slice that the arguments describe and print each step; with --json, the slice at the end."""
    request = _request(args, operator)
    progress = CreationSteps(out)
    steps = operator.slices.create(request, dry_run=args.dry_run, waits=not args.detach)
    await progress.follow(steps, lambda: _explain_interruption(request, progress.last, dry_run=args.dry_run))
    last, body = progress.last, next(iter(progress.requests), {})
    assert last is not None, "a creation has steps"
    answer = {
        "action": "create",
        "dry_run": args.dry_run,
        "steps": progress.texts,
        "operation": last.operation,
        "request": body,
        "elapsed_s": round(last.elapsed_s, 1),
        "startup": [state.to_json() for state in last.startup],
    }
    if args.dry_run:
        from tui.pod.creation.gcloud_commands import create_command_of_gcloud

        command = create_command_of_gcloud(request, _project(body))
        out.note("Nothing was changed.")
        if out.as_json:
            out.document({"slice": args.slice, **answer, "gcloud": command})
        else:
            out.text(to_json_text(body, indent=2))
            out.text(command)
    elif out.as_json:
        slices = [(await operator.slices.get(f"{request.zone}/{name}")).to_json() for name in request.slice_names]
        out.document({**slices[0], "slice": args.slice, **answer, "slices": slices})
    return progress.finish()


def _explain_interruption(request: SliceRequest, last: CreationStep | None, *, dry_run: bool) -> str:
    """Say what goes on after Ctrl-C; empty for a dry run that has shown nothing yet."""
    lists = "tpu-tui slices" if request.queue is None else "tpu-tui slices queued"
    if last is None:
        return (
            ""
            if dry_run
            else f"Interrupted before the API answered: {lists} shows whether {request.name} was requested."
        )
    if last.startup:
        from tui.pod.creation.startup_progress import startup_remedy

        first = next((state for state in last.startup if not state.has_ended), last.startup[0])
        return f"Interrupted. The startup script of {request.name} continues; {startup_remedy(request, first)}"
    return (
        f"Interrupted. The creation of {request.name} continues in the cloud ({last.operation}), "
        f"and costs money once it is ready: {lists} shows it."
    )


def _project(document: Mapping[str, Any]) -> str:
    """Return the project in the parent of a request, `projects/P/locations/Z`."""
    return str(document["parent"]).split("/")[1]


def _request(args: argparse.Namespace, operator: Operator) -> SliceRequest:
    """Return the request that the arguments describe. Raises UsageError for options that do not go together."""
    from tui.pod.creation.slice_request import SliceRequest

    zone, name = operator.slices.place_of(args.slice)
    type_name = (args.type or "").lower()
    is_generation = "-" not in type_name
    if args.accelerator_type and type_name and not is_generation:
        raise UsageError("--type and --accelerator-type were both given", remedy="give one of them")
    return make_request(
        SliceRequest,
        args,
        name=name,
        zone=zone,
        accelerator_type=(args.accelerator_type or "").lower() or ("" if is_generation else type_name),
        generation=type_name if is_generation else "",
        topology=(args.topology or "").lower(),
        data_disks=tuple(args.data_disk or ()),
        queue=_queue(args),
    )


def _queue(args: argparse.Namespace) -> QueueRequest | None:
    from tui.pod.creation.slice_request import QueueRequest

    options = {name: getattr(args, name) for name in _QUEUE_OPTIONS if getattr(args, name) is not None}
    if not args.queued and options:
        option = _QUEUE_OPTIONS[next(iter(options))]
        raise UsageError(f"{option} is for queued slices", remedy="add --queued")
    return QueueRequest(**options) if args.queued else None

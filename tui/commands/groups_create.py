"""`groups create`: create a managed instance group with its image, template and workload policy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tui.commands.machine_options import add_machine_options, make_request
from tui.commands.parser.argument_types import integer, string
from tui.commands.parser.commands import Commands
from tui.commands.parser.gcloud_types import duration
from tui.commands.terminal.output import Output, to_json_text
from tui.commands.terminal.prompts import confirm
from tui.commands.terminal.steps import CreationSteps
from tui.errors import UsageError

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.pod.groups.group_request import GroupRequest


def add_create(actions: Commands) -> None:
    """Add the action's parser, with gcloud's names for its options."""
    create = actions.add(
        "create",
        help="create a group with its image, policy and template, and wait until its VMs run",
        description="Create a managed instance group, with its image, workload policy and template where they are "
        "missing, and wait until its VMs run. Repeated after an interruption, it continues.",
    )
    add = create.add_argument
    add("group", metavar="NAME", help="NAME, or ZONE/NAME if several zones are configured")
    add("--size", metavar="N", type=integer, help="number of VMs (default: what --topology needs)")
    add("--template", metavar="NAME", type=string, help="an existing instance template (default: make one)")
    add("--machine-type", metavar="TYPE", type=string, help="n1-standard-16, ct6e-standard-4t, tpu7x-standard-4t …")
    add("--accelerator-type", metavar="TYPE", type=string, help="in place of a machine type, e.g. v6e-16 or v6e")
    add("--topology", metavar="AxB[xC]", type=string, help="chips per side: makes the VMs one slice, created at once")
    add("--image", metavar="NAME", type=string, help="image of the boot disks; with --image-from, of the new image")
    add("--image-family", metavar="FAMILY", type=string, help="use its newest image, or add the new image to it")
    add("--image-project", metavar="PROJECT", type=string, help="project of the image (default: yours)")
    add("--image-from", metavar="VM", type=string, help="make the image from this VM's disk; asks, then stops the VM")
    add("--boot-disk-size", metavar="GB", dest="disk_size_gb", type=integer, help="size of the boot disks")
    add("--boot-disk-type", metavar="TYPE", dest="disk_type", type=string, help="e.g. pd-balanced")
    add("--tpu-node", metavar="NAME", type=string, help="the TPU Node that the VMs drive")
    add("--spot", action="store_true", help="cheaper, but can be preempted at any time")
    add("--reservation", metavar="NAME", type=string, help="take the VMs from this reservation")
    add("--flex-start", action="store_true", help="wait for capacity, and keep the VMs for --run-duration")
    add(
        "--run-duration",
        metavar="TIME",
        dest="run_duration_s",
        type=duration,
        help="delete the VMs after this time, e.g. 8h",
    )
    add("--valid-for", metavar="TIME", dest="valid_for_s", type=duration, help="wait this long for capacity")
    add_machine_options(create)
    add("--yes", action="store_true", help="do not ask before a VM is stopped")
    add("--detach", "--async", action="store_true", help="return as soon as the VMs are requested")
    add("--dry-run", action="store_true", help="show the requests and the same commands of gcloud; change nothing")
    create.set_defaults(run=create_group, changes=True)


async def create_group(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create the group that the arguments describe and print each step; with --json, the group at the end."""
    request = await operator.groups.prepare(_request(args, operator))
    if request.image_from and not (args.yes or args.dry_run):
        vm = request.image_from
        effect = f"This stops VM {vm} and ends everything running there, to make an image of it"
        await confirm(f"stop VM {vm}", effect, f"nothing was changed: VM {vm} has to be stopped first")
    progress = CreationSteps(out)

    def explain_interruption() -> str:
        if args.dry_run or not progress.texts:
            return ""
        again = "the same command continues" if not args.detach else "tpu-tui groups list shows it"
        return f"Interrupted. What was requested of {request.name} continues in the cloud; {again}."

    steps = operator.groups.create(request, dry_run=args.dry_run, waits=not args.detach)
    await progress.follow(steps, explain_interruption)
    requests = progress.requests
    answer = {
        "group": args.group,
        "action": "create",
        "dry_run": args.dry_run,
        "steps": progress.texts,
        "requests": requests,
    }
    if args.dry_run:
        from tui.pod.groups.group_gcloud import create_group_commands

        commands = list(create_group_commands(request, operator.settings.project or "PROJECT"))
        out.note("Nothing was changed.")
        if out.as_json:
            out.document({**answer, "gcloud": commands})
        else:
            out.text(to_json_text(requests, indent=2))
            out.text("\n".join(commands))
    elif out.as_json:
        listing = await operator.groups.list_all()
        row = next((group.to_json() for group in listing.groups if group.path == request.path), {})
        out.document({**row, **answer, "startup": [state.to_json() for state in progress.startup]})
    return progress.finish()


def _request(args: argparse.Namespace, operator: Operator) -> GroupRequest:
    """Return the request that the arguments describe. Raises UsageError for options that do not go together."""
    from tui.pod.groups.group_request import GroupRequest

    zone, name = operator.slices.place_of(args.group)
    if args.detach and args.valid_for_s is not None:
        raise UsageError("--valid-for needs a command that waits", remedy="omit --detach or --valid-for")
    return make_request(GroupRequest, args, name=name, zone=zone)

"""`local up`: run a pod on this machine."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import integer
from tui.commands.parser.commands import Commands, Parser
from tui.commands.terminal.output import Output
from tui.localpod.api.resources.accelerator_types import MAX_CORES, MAX_WORKERS
from tui.localpod.host.host_spec import TOKEN_FILE
from tui.settings import LOCAL_PROFILE
from tui.text.printable import format_count

if TYPE_CHECKING:
    from tui.settings import Settings

MOST_SLICES = 64
"""Most slices of a local pod: each has its own range of loopback addresses."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    local = commands.add("local", help="run a pod on this machine: API, SSH workers and bucket")
    up = commands.actions_of(local).add("up", help="run the pod in the foreground; Ctrl-C leaves nothing behind")
    add_shape(up)
    up.add_argument(
        "--slices", type=_up_to(MOST_SLICES), default=1, metavar="N", help="number of slices (default: 1)"
    )
    up.add_argument("--with-parent", action="store_true", help="stop when stdin is closed")
    up.set_defaults(run_blocking=local_up, changes=True)


def add_shape(parser: Parser) -> None:
    """Add the options that set the size of a local pod."""
    workers, cores = _up_to(MAX_WORKERS), _up_to(MAX_CORES)
    parser.add_argument("--workers", type=workers, default=4, metavar="N", help="workers per slice (default: 4)")
    parser.add_argument("--cores", type=cores, default=1, metavar="N", help="cores per worker (default: 1)")


def _up_to(most: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        number = integer(text)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"must be from 1 to {most}, not {text}")
        return number

    return count


def local_up(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Run a local pod in the foreground; print one JSON line when it is ready."""
    from tui.localpod.command import run_local_up
    from tui.localpod.pod import LocalPod
    from tui.settings import load

    def announce(document: Mapping[str, Any]) -> None:
        if out.as_json:
            out.line(document)
            return
        names = ", ".join(f'"{name}"' for name in document["slices"])
        size = f"{format_count(args.workers, 'worker')} with {format_count(args.cores, 'core')} each"
        if args.slices == 1:
            out.text(f"Local pod {names} is up: {size}.")
        else:
            out.text(f"Local pods {names} are up, each of {size}.")
        out.note(f"Use it from another terminal: tpu-tui --profile {LOCAL_PROFILE} slices.")
        out.note("gcloud works too, with the pod's token in its environment:")
        for name, value in gcloud_variables(document, load({**flags, "profile": LOCAL_PROFILE})).items():
            out.note(f"  export {name}={shlex.quote(value)}")
        out.note("Press Ctrl-C to stop the pod and everything running on it.")

    pod = LocalPod(load(flags).home, workers=args.workers, cores=args.cores, slices=args.slices)
    run_local_up(pod, announce=announce, warn=out.note, with_parent=args.with_parent)
    return 0


def gcloud_variables(pod: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Return the environment in which gcloud uses a local pod; the token itself stays in its private file."""
    assert settings.identity is not None
    return {
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(settings.identity.with_name(TOKEN_FILE)),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{pod['tpu_api']['rest']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{pod['compute_api']}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_OSLOGIN": f"{pod['compute_api']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{pod['storage']}/storage/v1/",
        "CLOUDSDK_CORE_PROJECT": pod["project"],
    }

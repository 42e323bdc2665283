"""`local up`: a pod on this machine."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import whole
from tui.commands.terminal.output import Output
from tui.errors import UsageError
from tui.localpod.api.resources.accelerator_types import MAX_CORES, MAX_WORKERS
from tui.localpod.host.host_spec import TOKEN_FILE
from tui.settings import LOCAL_PROFILE

if TYPE_CHECKING:
    from tui.settings import Settings
from tui.commands.parser.commands import Commands, Parser

MOST_SLICES = 64
"""Slices of a local pod: each has a range of loopback addresses."""


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    local = commands.add("local", help="a pod on this machine: API, SSH workers and bucket")
    local.set_defaults(run_blocking=lambda *_: _usage("tpu-tui local up"))
    up = commands.below(local).add("up", help="start it and keep it in the foreground; Ctrl-C leaves nothing behind")
    add_shape(up)
    up.add_argument("--slices", type=_up_to(MOST_SLICES), default=1, metavar="N", help="slices (default: 1)")
    up.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    up.set_defaults(run_blocking=local_up, changes=True)


def add_shape(parser: Parser) -> None:
    """Add the options for the size of a local pod."""
    workers, cores = _up_to(MAX_WORKERS), _up_to(MAX_CORES)
    parser.add_argument("--workers", type=workers, default=4, metavar="N", help="workers per slice (default: 4)")
    parser.add_argument("--cores", type=cores, default=1, metavar="N", help="cores per worker (default: 1)")


def _up_to(most: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        number = whole(text)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from 1 to {most}")
        return number

    return count


def _usage(form: str) -> int:
    raise UsageError("which action?", remedy=form)


def local_up(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Run a local pod in the foreground; one JSON line when it is ready."""
    from tui.localpod.command import run_local_up
    from tui.settings import load

    def announce(document: Mapping[str, Any]) -> None:
        if out.as_json:
            out.line(document)
            return
        slices = ", ".join(document["slices"])
        out.text(f"The local pod is up: {slices} · workers {args.workers}, cores each {args.cores}.")
        out.note(f"From another terminal: tpu-tui --profile {LOCAL_PROFILE} slices.")
        out.note("With gcloud, whose requests need the pod's token:")
        for name, value in gcloud_variables(document, load({**flags, "profile": LOCAL_PROFILE})).items():
            out.note(f"  export {name}={shlex.quote(value)}")
        out.note("Ctrl-C ends it and all that runs on it.")

    return run_local_up(
        load(flags).home,
        workers=args.workers,
        cores=args.cores,
        slices=args.slices,
        announce=announce,
        warn=out.note,
        with_parent=args.with_parent,
    )


def gcloud_variables(pod: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Return the environment in which gcloud works on a local pod; the token itself stays in the owner's file."""
    assert settings.identity is not None
    return {
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(settings.identity.with_name(TOKEN_FILE)),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{pod['tpu_api']['rest']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{pod['storage']}/storage/v1/",
        "CLOUDSDK_CORE_PROJECT": pod["project"],
    }

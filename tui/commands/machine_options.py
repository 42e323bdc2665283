"""The options about machines that `slices create` and `groups create` share, with gcloud's names."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any, TypeVar

from tui.commands.parser.argument_types import file, string
from tui.commands.parser.commands import Parser
from tui.commands.parser.gcloud_types import duration, items, pairs
from tui.errors import UsageError
from tui.pod.creation.machine_request import STARTUP_SCRIPT, MachineRequest
from tui.settings.home import read_user_file

Request = TypeVar("Request", bound=MachineRequest)


def add_machine_options(parser: Parser) -> None:
    """Add the options: network, account, labels, metadata, startup script, description."""
    add = parser.add_argument
    add("--network", metavar="NETWORK", type=string, help="VPC network (default: default)")
    add("--subnetwork", metavar="NETWORK", type=string, help="subnetwork of the region")
    add("--internal-ips", action="store_true", help="give the workers no external addresses")
    add("--service-account", metavar="EMAIL", type=string, help="account that the workers act as")
    add("--scopes", metavar="SCOPE,…", type=items, help="access scopes of that account")
    add("--tags", metavar="TAG,…", type=items, help="network tags, for firewall rules")
    add("--labels", metavar="K=V,…", type=pairs, action="append", help="labels; created-by=tpu-tui is added")
    add("--metadata", metavar="K=V,…", type=pairs, action="append", help="metadata of the workers")
    add("--metadata-from-file", metavar="K=FILE,…", type=pairs, action="append", help="metadata from files")
    add("--startup-script", metavar="FILE", type=file, help="script that every worker runs when it starts")
    add(
        "--startup-timeout",
        metavar="TIME",
        dest="startup_timeout_s",
        type=duration,
        help="wait this long for the startup script (default: 20m)",
    )
    add("--description", metavar="TEXT", help="a description")


def make_request(kind: type[Request], args: argparse.Namespace, **values: Any) -> Request:
    """Return a request with the given values; every other field takes the argument of the same name.

    Raises UsageError for metadata that cannot be read, or is given twice.
    """
    metadata, files = _read_metadata(args)
    values |= {"labels": _merge_pairs(args.labels), "metadata": metadata, "metadata_files": files}
    names = [field.name for field in dataclasses.fields(kind) if field.name not in values]
    return kind(**values, **{name: value for name in names if (value := getattr(args, name, None)) is not None})


def _read_metadata(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return the metadata, and the files that some of its values were read from. Raises UsageError."""
    metadata, files = _merge_pairs(args.metadata), _merge_pairs(args.metadata_from_file)
    if args.startup_script is not None:
        for option, pairs_given in (("--metadata", metadata), ("--metadata-from-file", files)):
            if STARTUP_SCRIPT in pairs_given:
                what = f"--startup-script and {option} {STARTUP_SCRIPT}= were both given"
                raise UsageError(what, remedy="give one of them")
        files[STARTUP_SCRIPT] = str(args.startup_script)
    if duplicates := sorted(metadata.keys() & files.keys()):
        raise UsageError(f"metadata {duplicates[0]} was given as text and as a file", remedy="give it once")
    metadata |= {key: _text_of(path) for key, path in files.items()}
    if args.startup_script is not None and not metadata[STARTUP_SCRIPT].strip():
        raise UsageError(f"the startup script {args.startup_script} is empty", remedy="omit --startup-script")
    if args.startup_timeout_s is not None and STARTUP_SCRIPT not in metadata:
        raise UsageError("--startup-timeout is for startup scripts", remedy="add --startup-script FILE")
    return metadata, files


def _merge_pairs(given_pairs: list[dict[str, str]] | None) -> dict[str, str]:
    """Return the pairs of a repeated option; a later one replaces an earlier one of the same key."""
    return {key: value for option_pairs in given_pairs or () for key, value in option_pairs.items()}


def _text_of(path: str) -> str:
    """Return the text of a file, which may be a pipe of the shell, as in `<(command)`. Raises UsageError."""
    try:
        return read_user_file(Path(path).expanduser(), pipe=True).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text", remedy="metadata can hold text only") from None
    except RuntimeError:
        raise UsageError(f"{path} cannot be read", why=f"there is no user {path.partition('/')[0]}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error)) from None

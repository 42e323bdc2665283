"""The command lines of gcloud and of tpu-tui that create the same slice as a request. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from tui.pod.creation.machine_request import STARTUP_SCRIPT, STARTUP_TIMEOUT_S
from tui.pod.creation.slice_request import SliceRequest
from tui.text.timestamps import to_utc

_TYPES_OF_GA = ("v2", "v3", "v4")
"""The generations that `--type` has outside `gcloud alpha` (gcloud 528)."""
_DELIMITERS = ":;|@#%+~"
"""For values that contain a comma (`gcloud topic escaping`)."""
_SHORT_NAMES = {
    "accelerator-type": "type",
    "node-count": "nodes",
    "valid-until-duration": "valid-for",
    "valid-until-time": "valid-until",
}
"""Shorter names of gcloud's options, which `tpu-tui slices create` accepts too."""

Option = tuple[str, str | None]
"""An option's name and its value; None for a flag."""


def create_command_of_gcloud(request: SliceRequest, project: str) -> str:
    """Return the equivalent gcloud command, quoted for a shell."""
    place: list[Option] = [("project", project), ("zone", request.zone)]
    if request.is_tpu_node:  # gcloud has no option for its labels
        track = "beta" if request.reserved else ""
        return gcloud_command("tpus create", request.name, [*place, *_options(request, {}, {})], track)
    options = [*place, *_options(request, request.all_labels, request.metadata_files), *_queue_options(request)]
    track = "alpha" if request.generation not in ("", *_TYPES_OF_GA) else ""
    if request.queue is None:
        return gcloud_command("tpus tpu-vm create", request.name, options, track)
    options = [("runtime-version" if name == "version" else name, value) for name, value in options]
    return gcloud_command("tpus queued-resources create", request.name, options, track)


def gcloud_command(verb: str, name: str, options: Iterable[Option], track: str = "") -> str:
    """Return `gcloud [TRACK] compute VERB NAME --OPTION=VALUE …`, quoted for a shell."""
    arguments = [f"--{option}" if value is None else f"--{option}={value}" for option, value in options]
    return shlex.join([*f"gcloud {track} compute {verb}".split(), name, *arguments])


def list_create_options(request: SliceRequest) -> Iterator[Option]:
    """Yield the options of `tpu-tui slices create` that make the same request."""
    files = {key: path for key, path in request.metadata_files.items() if key != STARTUP_SCRIPT}
    if request.is_tpu_node:
        yield "architecture", request.architecture
    for name, value in _options(request, request.labels, files):
        yield _SHORT_NAMES.get(name, name), value
    if STARTUP_SCRIPT in request.metadata_files:
        yield STARTUP_SCRIPT, request.metadata_files[STARTUP_SCRIPT]
    if request.startup_timeout_s != STARTUP_TIMEOUT_S:
        yield "startup-timeout", f"{request.startup_timeout_s:.0f}s"
    if request.queue is not None:
        yield "queued", None
        for name, value in _queue_options(request):
            if (name, value) != ("node-id", request.name):
                yield _SHORT_NAMES.get(name, name), value


def _options(request: SliceRequest, labels: Mapping[str, str], files: Mapping[str, str]) -> Iterator[Option]:
    """Yield the options of every request, queued or not."""
    texts = {
        "accelerator-type": request.accelerator_type,
        "type": request.generation,
        "topology": request.topology,
        "version": request.runtime_version,
        "description": request.description,
        "network": request.network,
        "subnetwork": request.subnetwork,
        "queue-count": "" if request.queue_count is None else str(request.queue_count),
        "range": request.cidr_range,
        "service-account": request.service_account,
        "scopes": join_items(request.scopes),
        "tags": join_items(request.tags),
        "labels": join_pairs(labels),
        "metadata": join_pairs(
            {key: value for key, value in request.metadata.items() if key not in request.metadata_files}
        ),
        "metadata-from-file": join_pairs(files),
    }
    yield from ((name, value) for name, value in texts.items() if value)
    for disk in request.data_disks:
        yield "data-disk", f"source={disk.source},mode={disk.mode}"
    flags = {
        "internal-ips": request.internal_ips,
        "spot": request.spot,
        "preemptible": request.preemptible,
        "reserved": request.reserved,
        "shielded-secure-boot": request.secure_boot,
    }
    yield from ((name, None) for name, is_on in flags.items() if is_on)


def _queue_options(request: SliceRequest) -> Iterator[Option]:
    queue = request.queue
    if queue is None:
        return
    if queue.nodes is None:
        yield "node-id", request.slice_names[0]
    else:
        yield "node-count", str(queue.nodes)
        if queue.node_prefix:
            yield "node-prefix", queue.node_prefix
    if queue.valid_for_s is not None:
        yield "valid-until-duration", f"{queue.valid_for_s}s"
    if queue.valid_until is not None:
        yield "valid-until-time", to_utc(queue.valid_until)


def join_pairs(pairs: Mapping[str, str]) -> str:
    """Join pairs as `key=value,other=value`, with the delimiter of `join_items`."""
    return join_items(f"{key}={value}" for key, value in pairs.items())


def join_items(items: Iterable[str]) -> str:
    """Join the items with commas, or with another delimiter where an item has a comma."""
    texts = list(items)
    joined = "".join(texts)
    if "," not in joined and not joined.startswith("^"):
        return ",".join(texts)
    delimiter = next((sign for sign in _DELIMITERS if sign not in joined), "<|>")
    return f"^{delimiter}^{delimiter.join(texts)}"

"""gcloud's command line that creates the same slice as a request. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import timezone

from tui.pod.creation.slice_request import SliceRequest

_TYPES_OF_GA = ("v2", "v3", "v4")
"""The generations that `--type` has outside `gcloud alpha` (gcloud 528)."""
_DELIMITERS = ":;|@#%+~"
"""For values that contain a comma (`gcloud topic escaping`)."""


def create_command_of_gcloud(request: SliceRequest, project: str) -> str:
    """Return the equivalent gcloud command, quoted for a shell."""
    track = ["alpha"] if request.generation and request.generation not in _TYPES_OF_GA else []
    group = "tpu-vm" if request.queue is None else "queued-resources"
    options = _options(request, project)
    return shlex.join(["gcloud", *track, "compute", "tpus", group, "create", request.name, *options])


def _options(request: SliceRequest, project: str) -> Iterator[str]:
    yield f"--project={project}"
    yield f"--zone={request.zone}"
    if request.accelerator_type:
        yield f"--accelerator-type={request.accelerator_type}"
    else:
        yield f"--type={request.generation}"
        yield f"--topology={request.topology}"
    version = "version" if request.queue is None else "runtime-version"
    texts = {
        version: request.runtime_version,
        "description": request.description,
        "network": request.network,
        "subnetwork": request.subnetwork,
        "queue-count": "" if request.queue_count is None else str(request.queue_count),
        "range": request.cidr_range,
        "service-account": request.service_account,
        "scopes": _joined(request.scopes),
        "tags": _joined(request.tags),
        "labels": _joined_pairs(request.all_labels),
        "metadata": _joined_pairs(
            {key: value for key, value in request.metadata.items() if key not in request.metadata_files}
        ),
        "metadata-from-file": _joined_pairs(request.metadata_files),
    }
    yield from (f"--{name}={value}" for name, value in texts.items() if value)
    for disk in request.data_disks:
        yield f"--data-disk=source={disk.source},mode={disk.mode}"
    flags = {
        "internal-ips": request.internal_ips,
        "spot": request.spot,
        "preemptible": request.preemptible,
        "reserved": request.reserved,
        "shielded-secure-boot": request.secure_boot,
    }
    yield from (f"--{name}" for name, is_on in flags.items() if is_on)
    yield from _queue_options(request)


def _queue_options(request: SliceRequest) -> Iterator[str]:
    queue = request.queue
    if queue is None:
        return
    if queue.nodes is None:
        yield f"--node-id={request.node_ids[0]}"
    else:
        yield f"--node-count={queue.nodes}"
        if queue.node_prefix:
            yield f"--node-prefix={queue.node_prefix}"
    if queue.valid_for_s is not None:
        yield f"--valid-until-duration={queue.valid_for_s}s"
    if queue.valid_until is not None:
        moment = queue.valid_until.astimezone(timezone.utc)
        yield f"--valid-until-time={moment.strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _joined_pairs(pairs: Mapping[str, str]) -> str:
    return _joined(f"{key}={value}" for key, value in pairs.items())


def _joined(items: Iterable[str]) -> str:
    """Join the items with commas, or with another delimiter where an item has a comma."""
    texts = list(items)
    whole = "".join(texts)
    if "," not in whole and not whole.startswith("^"):
        return ",".join(texts)
    delimiter = next((one for one in _DELIMITERS if one not in whole), "<|>")
    return f"^{delimiter}^{delimiter.join(texts)}"

"""Checks of a request for a slice before it is sent: one sentence for each refused combination. Pure.

Sources: gcloud's `tpus tpu-vm create`, `tpus queued-resources create` and `tpus create`; Cloud TPU documentation,
"Attach durable block storage".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import datetime, timezone

from tui.errors import UsageError
from tui.pod.accelerator import (
    GENERATIONS,
    LONGEST_NODE_PREFIX,
    TPU_API_GENERATIONS,
    TPU_NODE_GENERATIONS,
    type_of_topology,
)
from tui.pod.creation.machine_checks import Objection, list_machine_objections, options_of
from tui.pod.creation.slice_names import NAME_RULE, suggest_name
from tui.pod.creation.slice_request import READ_WRITE, SliceRequest

_DISK = re.compile(r"projects/[^/]+/(?:zones/(?P<zone>[^/]+)|regions/[^/]+)/disks/[^/]+")

_OF_TPU_VMS = {
    **options_of(
        "topology", "subnetwork", "internal_ips", "queue_count", "service_account", "scopes", "tags", "spot"
    ),
    "metadata": "metadata",
    "data_disks": "--data-disk",
    "secure_boot": "--shielded-secure-boot",
}
"""The options that only TPU VMs have, by their fields of `SliceRequest`."""


def check_slice_request(request: SliceRequest) -> None:
    """Raise UsageError with the first reason for which a request cannot be sent."""
    for _, why, remedy in list_objections(request):
        raise UsageError(request.failure, why=why, remedy=remedy)


def list_objections(request: SliceRequest) -> Iterator[Objection]:
    """Yield every reason for which a request cannot be sent."""
    for checks in (_of_names, _of_type, _of_architecture, _of_price, _of_queue, _of_disks):
        yield from checks(request)
    yield from list_machine_objections(request)


def _of_names(request: SliceRequest) -> Iterator[Objection]:
    for name in dict.fromkeys((request.name, *request.slice_names)):
        if remedy := suggest_name(name, "tpu-tui slices create NAME …"):
            yield "name" if name == request.name else "node-prefix", NAME_RULE, remedy


def _of_type(request: SliceRequest) -> Iterator[Objection]:
    generations = ", ".join(TPU_API_GENERATIONS)
    generation = request.generation or request.accelerator_type.partition("-")[0]
    if request.accelerator_type and request.generation:
        yield "type", "--type and --accelerator-type were both given", "give one of them"
    if request.accelerator_type and request.topology:
        yield (
            "type",
            f"the type {request.accelerator_type} has a topology already",
            f"for a topology, give the generation: --type v4 --topology {request.topology}",
        )
    if request.topology and not request.generation:
        yield "type", "--topology needs the generation", f"add --type GENERATION, one of {generations}"
    if generation in GENERATIONS and generation not in TPU_API_GENERATIONS:
        yield (
            "type",
            f"the Cloud TPU API has no {generation}: it is created on Compute Engine",
            "create an instance group of its machines: tpu-tui groups create",
        )
    elif request.generation and request.generation not in TPU_API_GENERATIONS:
        yield "type", f"there is no generation {request.generation}", f"use one of {generations}"
    if request.generation and not request.topology:
        yield (
            "topology",
            f"--type {request.generation} is a generation, which has many sizes",
            f"add --topology, e.g. 2x2, or give the size: --type {request.generation}-8",
        )
    if request.topology and type_of_topology(request.generation, request.topology) is None:
        yield "topology", f"{request.topology} is not a topology", "give chips per side, e.g. 2x2 or 2x2x4"
    if not (request.accelerator_type or request.generation):
        yield "type", "no type was given", "add --type TYPE, e.g. v3-32; tpu-tui slices types lists them"
    if not request.runtime_version:
        yield "version", "no runtime version was given", "add --version RUNTIME; tpu-tui slices types lists them"


def _of_architecture(request: SliceRequest) -> Iterator[Objection]:
    if not request.is_tpu_node:
        return
    if request.queue is not None:
        yield "architecture", "a TPU Node cannot be queued", "omit --queued"
    if request.type_name.partition("-")[0] not in TPU_NODE_GENERATIONS:
        yield (
            "architecture",
            f"a TPU Node is a v2 or v3, and {request.type_name} is neither",
            "omit --architecture, which creates TPU VMs",
        )
    for name, option in _OF_TPU_VMS.items():
        if getattr(request, name):
            yield (
                "architecture",
                f"a TPU Node has no {option}, which only TPU VMs have",
                "omit it; the VMs that control the node get theirs from the template of their instance group",
            )
    if request.cidr_range and not _is_block_of_node(request.cidr_range):
        yield (
            "range",
            f"{request.cidr_range} is not a block of addresses for a TPU Node",
            "give one of /29 or larger, e.g. 10.240.0.0/29",
        )


def _is_block_of_node(text: str) -> bool:
    try:
        return ipaddress.IPv4Network(text).prefixlen <= LONGEST_NODE_PREFIX
    except ValueError:
        return False


def _of_price(request: SliceRequest) -> Iterator[Objection]:
    if request.spot and request.preemptible:
        yield "spot", "a slice is either spot or preemptible", "use --spot, which has no time limit"
    for name, is_on in (("spot", request.spot), ("preemptible", request.preemptible)):
        if request.reserved and is_on:
            yield "spot", f"a reservation has no {name} capacity", f"use --reserved or --{name}, not both"


def _of_queue(request: SliceRequest) -> Iterator[Objection]:
    queue = request.queue
    if queue is None:
        return
    if request.preemptible:
        yield "queued", "queued slices cannot be preemptible", "use --spot"
    if request.queue_count is not None:
        yield "queue-count", "gcloud's queue has no --queue-count", "omit it, or create the slice without --queued"
    if queue.nodes is not None and queue.nodes < 2:
        yield "nodes", "--nodes must be 2 or more", "omit it for one slice"
    if queue.node_prefix and queue.nodes is None:
        yield "node-prefix", "--node-prefix is for several slices", "add --nodes N, or use --node-id for one"
    if queue.node_id and queue.nodes is not None:
        yield "node-id", "--node-id names one slice, and --nodes makes several", "use --node-prefix"
    if queue.valid_for_s is not None and queue.valid_until is not None:
        yield "valid-until", "--valid-for and --valid-until were both given", "give one of them"
    if queue.valid_for_s == 0:
        yield "valid-for", "--valid-for is 0", "give a duration, e.g. 6h"
    if queue.valid_until is not None and queue.valid_until <= datetime.now(timezone.utc):
        yield (
            "valid-until",
            f"{queue.valid_until.isoformat()} is in the past",
            "give a later time, or a duration: --valid-for 6h",
        )


def _of_disks(request: SliceRequest) -> Iterator[Objection]:
    kind = request.accelerator
    workers = (kind.workers if kind else 1) * len(request.slice_names)
    for disk in request.data_disks:
        match = _DISK.fullmatch(disk.source)
        if match is None:
            yield (
                "data-disk",
                f"{disk.source} is not the full path of a disk",
                f"use source=projects/PROJECT/zones/{request.zone}/disks/NAME",
            )
        elif match["zone"] not in (None, request.zone):
            yield "data-disk", f"disk {disk.source} is not in {request.zone}", "a disk must be in the slice's zone"
        elif disk.mode == READ_WRITE and workers > 1:
            yield (
                "data-disk",
                f"disk {disk.source} can be written by one worker only, and there are {workers}",
                "add mode=read-only",
            )
    sources = [disk.source for disk in request.data_disks]
    if len(set(sources)) < len(sources):
        yield "data-disk", "a disk was given twice", "give each --data-disk once"

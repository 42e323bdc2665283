"""The fields of a node: their values in a new node, those that depend on its workers, and updates."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.protobuf.field_mask_pb2 import FieldMask

from tui.localpod.api import rpc_errors
from tui.localpod.api.host_protocol import HostedWorker
from tui.localpod.api.resources.accelerator_types import MAX_CORES, SliceShape
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.localpod.api.resources.zone_offers import accelerator_config
from tui.localpod.api.transport.messages import now
from tui.pod.api_paths import last_part, region_of
from tui.pod.slice import CORES_PER_WORKER
from tui.text.numbers import parse_integer

MAX_DESCRIPTION = 512
CIDR_BLOCK = "127.0.0.0/8"
UPDATABLE = frozenset({"description", "tags", "labels", "metadata", "network_config.enable_external_ips"})
"""The fields that UpdateNode accepts (Cloud TPU API v2, UpdateNodeRequest)."""

State: Any = tpu.Node.State
Health: Any = tpu.Node.Health
V2: Any = tpu.Node.ApiVersion.V2

_COPIED = ("description", "runtime_version", "service_account", "scheduling_config", "shielded_instance_config")
"""Fields that a new node gets from the request unchanged."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def new_node(place: ResourceLocation, name: str, wanted: tpu.Node, shape: SliceShape, cores: int) -> tpu.Node:
    """Return a node in CREATING with the requested fields and the API's defaults. Raises INVALID_ARGUMENT."""
    _check_description(wanted.description)
    node = tpu.Node(
        name=name,
        accelerator_type=shape.name,
        accelerator_config=accelerator_config(shape),
        state=State.CREATING,
        id=secrets.randbits(62) | 1,
        create_time=now(),
        cidr_block=wanted.cidr_block or CIDR_BLOCK,
        network_config=_network_config(place, wanted),
        api_version=wanted.api_version or V2,
        labels=dict(wanted.labels),
        metadata=dict(wanted.metadata),
        tags=list(wanted.tags),
        data_disks=list(wanted.data_disks),
        **{field: getattr(wanted, field) for field in _COPIED if field in wanted},
    )
    if not node.service_account.email:
        node.service_account.email = f"{place.project}-compute@developer.gserviceaccount.com"
    if not node.service_account.scope:
        node.service_account.scope = ["https://www.googleapis.com/auth/cloud-platform"]
    node.scheduling_config = node.scheduling_config or tpu.SchedulingConfig()
    if shape.cores is None:
        node.labels[CORES_PER_WORKER] = str(cores)
    return node


def requested_cores(wanted: tpu.Node, shape: SliceShape, default: int) -> int:
    """Return the devices per worker: of the type, else of the label or metadata, else the pod's default."""
    if shape.cores is not None:
        return shape.cores
    text = wanted.labels.get(CORES_PER_WORKER) or wanted.metadata.get(CORES_PER_WORKER)
    if text is None:
        return default
    if not (number := parse_integer(text, MAX_CORES)):
        raise rpc_errors.invalid(
            f"{CORES_PER_WORKER} must be a number from 1 to {MAX_CORES}, not '{text}'", "node.labels"
        )
    return number


def set_workers(node: tpu.Node, workers: Sequence[HostedWorker]) -> None:
    """Write the workers' addresses: endpoint i has the address of worker i and the port of its SSH server."""
    node.network_endpoints = [_endpoint(node, worker) for worker in workers]


def set_ready(node: tpu.Node) -> None:
    """Mark the node as READY and HEALTHY."""
    node.state = State.READY
    node.health = Health.HEALTHY
    node.health_description = ""


def set_preempted(node: tpu.Node, gone: Sequence[int]) -> None:
    """Mark the node as PREEMPTED and name the workers that are gone."""
    which = ", ".join(str(index) for index in gone)
    node.state = State.PREEMPTED
    node.health = Health.TIMEOUT
    node.health_description = f"The TPU was preempted: worker {which} of {len(node.network_endpoints)} is gone."


def update_paths(wanted: tpu.Node, mask: Iterable[str]) -> list[str]:
    """Return the mask's paths in snake case. Raises INVALID_ARGUMENT for a field or a value that is not possible."""
    snake = [_CAPITAL.sub(r"_\1", path).lower() for path in mask]
    if not snake:
        raise rpc_errors.invalid("the update mask is empty", "update_mask")
    for path in snake:
        if path not in UPDATABLE:
            raise rpc_errors.invalid(f"the field '{path}' cannot be updated", "update_mask")
    if "description" in snake:
        _check_description(wanted.description)
    return snake


def apply_update(node: tpu.Node, wanted: tpu.Node, paths: Sequence[str], workers: Sequence[HostedWorker]) -> None:
    """Apply the fields of a checked mask."""
    source = tpu.Node.pb(wanted)
    source.network_config.SetInParent()  # of an absent message, no field would be merged
    FieldMask(paths=paths).MergeMessage(source, tpu.Node.pb(node), True, True)
    if "network_config.enable_external_ips" in paths:
        set_workers(node, workers)


def _endpoint(node: tpu.Node, worker: HostedWorker) -> tpu.NetworkEndpoint:
    endpoint = tpu.NetworkEndpoint(ip_address=worker.address, port=worker.port)
    if node.network_config.enable_external_ips:
        endpoint.access_config = tpu.AccessConfig(external_ip=worker.address)
    return endpoint


def _network_config(place: ResourceLocation, node: tpu.Node) -> tpu.NetworkConfig:
    config = tpu.NetworkConfig(node.network_configs[0] if node.network_configs else node.network_config)
    region = region_of(place.zone)
    network = last_part(config.network) or "default"
    subnetwork = last_part(config.subnetwork) or "default"
    config.network = f"projects/{place.project}/global/networks/{network}"
    config.subnetwork = f"projects/{place.project}/regions/{region}/subnetworks/{subnetwork}"
    return config


def _check_description(text: str) -> None:
    if len(text) > MAX_DESCRIPTION:
        raise rpc_errors.invalid(f"the description is longer than {MAX_DESCRIPTION} characters", "node.description")

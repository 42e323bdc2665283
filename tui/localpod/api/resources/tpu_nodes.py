"""TPU Nodes, the nodes of the Cloud TPU API v1: as messages of v1 and v2, and their differences from TPU VMs.

A TPU Node has no machines: its endpoints are TPUs, which VMs of Compute Engine drive. Sources: Cloud
TPU API v1 (Node); "TPU Node architecture" for the generations; for the port, the seeds' xla_dist log.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

import google.cloud.tpu_v1.types as v1
import google.cloud.tpu_v2.types as tpu

from tui.localpod.api import rpc_errors
from tui.localpod.api.resources.accelerator_types import SliceShape
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.pod.accelerator import LONGEST_NODE_PREFIX, TPU_NODE_GENERATIONS
from tui.pod.ports import TPU_NODE_PORT

TENSORFLOW_VERSIONS = ("1.15.5", "2.12.0", "2.13.0", "pytorch-1.13", "pytorch-2.0", "pytorch-nightly", "nightly")
"""The values of `--version` for a TPU Node, which include versions of PyTorch."""
V1: Any = tpu.Node.ApiVersion.V1
_FREE_BLOCKS = [f"127.240.{number}.0/24" for number in range(256)]
"""Blocks for nodes that do not request one: loopback addresses, so that a probe of an endpoint gets an answer."""
_FIRST_ADDRESS = 2


def is_tpu_node(node: tpu.Node) -> bool:
    """Return whether the v1 API created the node."""
    return bool(node.api_version == V1)


def node_of_v1(node: v1.Node) -> tpu.Node:
    """Return the node of a v1 request as a node of v2."""
    return tpu.Node(
        accelerator_type=node.accelerator_type,
        runtime_version=node.tensorflow_version,
        description=node.description,
        cidr_block=node.cidr_block,
        network_config=tpu.NetworkConfig(network=node.network),
        labels=dict(node.labels),
        scheduling_config=tpu.SchedulingConfig(
            preemptible=node.scheduling_config.preemptible, reserved=node.scheduling_config.reserved
        ),
    )


def node_as_v1(node: tpu.Node) -> v1.Node:
    """Return a node as a node of v1. The API version of a TPU VM is V2_ALPHA1 there: v1 has no value for v2."""
    endpoints = [
        v1.NetworkEndpoint(ip_address=endpoint.ip_address, port=endpoint.port) for endpoint in node.network_endpoints
    ]
    first = endpoints[0] if endpoints else v1.NetworkEndpoint()
    return v1.Node(
        name=node.name,
        description=node.description,
        accelerator_type=node.accelerator_type,
        ip_address=first.ip_address,
        port=str(first.port or ""),
        state=int(node.state),
        health=int(node.health),
        health_description=node.health_description,
        tensorflow_version=node.runtime_version,
        network=node.network_config.network,
        cidr_block=node.cidr_block,
        service_account=node.service_account.email,
        create_time=node.create_time,
        scheduling_config=v1.SchedulingConfig(
            preemptible=node.scheduling_config.preemptible, reserved=node.scheduling_config.reserved
        ),
        network_endpoints=endpoints,
        labels=dict(node.labels),
        api_version=v1.Node.ApiVersion.V1 if is_tpu_node(node) else v1.Node.ApiVersion.V2_ALPHA1,
    )


def check_request(place: ResourceLocation, wanted: tpu.Node, shape: SliceShape, taken: Iterable[str]) -> str:
    """Return the address block of a new TPU Node; `taken` are the blocks of the others. Raises INVALID_ARGUMENT."""
    if shape.generation not in TPU_NODE_GENERATIONS:
        message = f"the accelerator {shape.name} is not available as a TPU Node"
        raise rpc_errors.invalid(message, "node.accelerator_type")
    if wanted.runtime_version not in TENSORFLOW_VERSIONS:
        message = f"the TensorFlow version '{wanted.runtime_version}' was not found in zone {place.zone}"
        raise rpc_errors.invalid(message, "node.tensorflow_version")
    used = [ipaddress.IPv4Network(block) for block in taken]
    if not wanted.cidr_block:
        return next(block for block in _FREE_BLOCKS if not _overlaps(ipaddress.IPv4Network(block), used))
    try:
        block = ipaddress.IPv4Network(wanted.cidr_block)
    except ValueError:
        raise rpc_errors.invalid(f"'{wanted.cidr_block}' is not a CIDR block", "node.cidr_block") from None
    if block.prefixlen > LONGEST_NODE_PREFIX or block.num_addresses < _FIRST_ADDRESS + shape.workers:
        raise rpc_errors.invalid(f"the CIDR block {block} is too small for {shape.name}", "node.cidr_block")
    if _overlaps(block, used):
        raise rpc_errors.invalid(f"the CIDR block {block} is in use", "node.cidr_block")
    return str(block)


def set_endpoints(node: tpu.Node, count: int) -> None:
    """Write the node's endpoints: addresses in its block, each with the port of the TPU's server."""
    block = ipaddress.IPv4Network(node.cidr_block)
    node.network_endpoints = [
        tpu.NetworkEndpoint(ip_address=str(block[_FIRST_ADDRESS + index]), port=TPU_NODE_PORT)
        for index in range(count)
    ]


def _overlaps(block: ipaddress.IPv4Network, used: Iterable[ipaddress.IPv4Network]) -> bool:
    return any(block.overlaps(used_block) for used_block in used)

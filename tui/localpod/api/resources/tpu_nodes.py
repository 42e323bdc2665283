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
    """Return the node of a v1 request as a node of v2. Most fields have the same numbers in both."""
    message = tpu.Node.pb(tpu.Node.deserialize(v1.Node.serialize(node)))
    message.DiscardUnknownFields()
    message.network_config.network = node.network
    return tpu.Node(message)


def node_as_v1(node: tpu.Node) -> v1.Node:
    """Return a node as a node of v1. The API version of a TPU VM is V2_ALPHA1 there: v1 has no value for v2."""
    message = v1.Node.pb(v1.Node.deserialize(tpu.Node.serialize(node)))
    message.DiscardUnknownFields()
    if message.network_endpoints:
        message.ip_address = message.network_endpoints[0].ip_address
        message.port = str(message.network_endpoints[0].port or "")
    message.network = node.network_config.network
    message.service_account = node.service_account.email
    versions = v1.Node.ApiVersion
    message.api_version = versions.V1 if is_tpu_node(node) else versions.V2_ALPHA1
    return v1.Node(message)


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

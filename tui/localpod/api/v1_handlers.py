"""The methods of the Cloud TPU API v1, on the same state as v2; each takes and returns a message of v1."""

from __future__ import annotations

from typing import Any

import google.cloud.tpu_v1.types as v1

from tui.localpod.api.handlers import ApiHandlers
from tui.localpod.api.resources import tpu_nodes
from tui.localpod.api.resources.paging import page
from tui.localpod.api.resources.resource_names import parse_place


def list_nodes(api: ApiHandlers, request: v1.ListNodesRequest) -> v1.ListNodesResponse:
    """Return one page of a zone's nodes, TPU VMs too."""
    answer = api.list_nodes(request)
    nodes = [tpu_nodes.node_as_v1(node) for node in answer.nodes]
    return v1.ListNodesResponse(nodes=nodes, next_page_token=answer.next_page_token)


def get_node(api: ApiHandlers, request: v1.GetNodeRequest) -> v1.Node:
    """Return one node."""
    return tpu_nodes.node_as_v1(api.nodes.get(request.name).node)


def create_node(api: ApiHandlers, request: v1.CreateNodeRequest) -> Any:
    """Return the operation that creates a TPU Node."""
    node = tpu_nodes.node_of_v1(request.node)
    return api.nodes.create(parse_place(request.parent), request.node_id, node, tpu_nodes.V1)


def list_accelerator_types(
    api: ApiHandlers, request: v1.ListAcceleratorTypesRequest
) -> v1.ListAcceleratorTypesResponse:
    """Return one page of the accelerator types on offer."""
    answer = api.list_accelerator_types(request)
    types = [v1.AcceleratorType(name=kind.name, type_=kind.type_) for kind in answer.accelerator_types]
    return v1.ListAcceleratorTypesResponse(accelerator_types=types, next_page_token=answer.next_page_token)


def list_tensorflow_versions(
    _: ApiHandlers, request: v1.ListTensorFlowVersionsRequest
) -> v1.ListTensorFlowVersionsResponse:
    """Return one page of the versions that a TPU Node can have."""
    place = parse_place(request.parent)
    offered = [
        v1.TensorFlowVersion(name=place.child("tensorflowVersions", version), version=version)
        for version in tpu_nodes.TENSORFLOW_VERSIONS
    ]
    versions, token = page(offered, request)
    return v1.ListTensorFlowVersionsResponse(tensorflow_versions=versions, next_page_token=token)

"""The API methods that only read the pod's state; `routes.py` lists all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import google.cloud.tpu_v2.types as tpu
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.resources import zone_offers
from tui.localpod.api.resources.guest_attributes import guest_attributes
from tui.localpod.api.resources.nodes import Nodes
from tui.localpod.api.resources.operations import Operations
from tui.localpod.api.resources.paging import page
from tui.localpod.api.resources.queued_resources import QueuedResources
from tui.localpod.api.resources.resource_names import ANY_ZONE, ResourceLocation, parse_place
from tui.pod.api_paths import region_of

T = TypeVar("T")


class ApiHandlers:
    """The pod's state, and one function per method: request message in, answer message out. All raise ApiError."""

    def __init__(
        self,
        project: str,
        zones: Sequence[str],
        nodes: Nodes,
        queued: QueuedResources,
        operations: Operations,
    ) -> None:
        self.project = project
        self.zones = tuple(zones)
        self.nodes = nodes
        self.queued = queued
        self.operations = operations

    def _gather(self, parent: str, in_place: Callable[[ResourceLocation], list[T]]) -> list[T]:
        """Return the resources of the parent's zone, or of every zone."""
        place = parse_place(parent)
        zones = self.zones if place.zone == ANY_ZONE else (place.zone,)
        return [resource for zone in zones for resource in in_place(ResourceLocation(place.project, zone))]

    def list_nodes(self, request: tpu.ListNodesRequest) -> tpu.ListNodesResponse:
        """Return one page of a zone's nodes, or of every zone's."""
        nodes, token = page(self._gather(request.parent, self.nodes.in_place), request)
        return tpu.ListNodesResponse(nodes=nodes, next_page_token=token)

    def get_guest_attributes(self, request: tpu.GetGuestAttributesRequest) -> tpu.GetGuestAttributesResponse:
        """Return the attributes that the workers' machines publish, e.g. their host keys."""
        hosted = self.nodes.get(request.name)
        if not hosted.is_running:
            state = tpu.Node.State(hosted.node.state).name
            raise rpc_errors.precondition(f"The TPU node '{request.name}' is {state} and has no guest attributes.")
        return guest_attributes(hosted.workers, request.query_path, request.worker_ids)

    def list_queued_resources(self, request: tpu.ListQueuedResourcesRequest) -> tpu.ListQueuedResourcesResponse:
        """Return one page of a zone's queued resources, or of every zone's."""
        queued, token = page(self._gather(request.parent, self.queued.in_place), request)
        return tpu.ListQueuedResourcesResponse(queued_resources=queued, next_page_token=token)

    def list_accelerator_types(self, request: tpu.ListAcceleratorTypesRequest) -> tpu.ListAcceleratorTypesResponse:
        """Return one page of the accelerator types on offer."""
        _refuse_filter(request)
        types, token = page(zone_offers.accelerator_types(parse_place(request.parent)), request)
        return tpu.ListAcceleratorTypesResponse(accelerator_types=types, next_page_token=token)

    def list_runtime_versions(self, request: tpu.ListRuntimeVersionsRequest) -> tpu.ListRuntimeVersionsResponse:
        """Return one page of the runtime versions on offer."""
        _refuse_filter(request)
        versions, token = page(zone_offers.runtime_versions(parse_place(request.parent)), request)
        return tpu.ListRuntimeVersionsResponse(runtime_versions=versions, next_page_token=token)

    def list_locations(self, request: Any) -> Any:
        """Return one page of the zones."""
        locations, token = page([self._location(zone) for zone in self.zones], request)
        return locations_pb2.ListLocationsResponse(locations=locations, next_page_token=token)

    def _location(self, zone: str) -> Any:
        return locations_pb2.Location(
            name=str(ResourceLocation(self.project, zone)),
            location_id=zone,
            labels={"cloud.googleapis.com/region": region_of(zone)},
        )

    def list_operations(self, request: Any) -> Any:
        """Return one page of a zone's operations."""
        if request.filter:
            raise rpc_errors.unimplemented("Filters of operations are not implemented.")
        operations, token = page(self.operations.in_place(parse_place(request.name)), request)
        return operations_pb2.ListOperationsResponse(operations=operations, next_page_token=token)


def _refuse_filter(request: Any) -> None:
    if request.filter or request.order_by:
        raise rpc_errors.unimplemented("filter and order_by are not implemented.")

"""What each method of the API answers, over the pod's one state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import google.cloud.tpu_v2.types as tpu
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.faults import ServiceFaults
from tui.localpod.api.resources import catalogue
from tui.localpod.api.resources.guest_attributes import guest_attributes
from tui.localpod.api.resources.nodes import Nodes
from tui.localpod.api.resources.operations import Operations
from tui.localpod.api.resources.paging import page
from tui.localpod.api.resources.queued_resources import QueuedResources
from tui.localpod.api.resources.resource_names import ANY_ZONE, ResourceLocation, id_of, parse_place

T = TypeVar("T")


class ApiHandlers:
    """One coroutine a method: request message in, answer message out; all raise ApiError."""

    def __init__(
        self,
        project: str,
        zones: Sequence[str],
        nodes: Nodes,
        queued: QueuedResources,
        operations: Operations,
        behaviour: ServiceFaults,
    ) -> None:
        self.project = project
        self.zones = tuple(zones)
        self._nodes = nodes
        self._queued = queued
        self._operations = operations
        self.behaviour = behaviour

    def _gather(self, parent: str, in_place: Callable[[ResourceLocation], list[T]]) -> tuple[list[T], list[str]]:
        """What the parent's zone, or every zone, holds, and the zones that did not answer."""
        place = parse_place(parent)
        if place.zone != ANY_ZONE:
            return in_place(place), []
        found: list[T] = []
        unreachable: list[str] = []
        for zone in self.zones:
            one = ResourceLocation(place.project, zone)
            if self.behaviour.is_unavailable(zone):
                unreachable.append(str(one))
            else:
                found += in_place(one)
        return found, unreachable

    async def list_nodes(self, request: tpu.ListNodesRequest) -> tpu.ListNodesResponse:
        """One page of a zone's nodes, or of every zone's."""
        found, unreachable = self._gather(request.parent, self._nodes.in_place)
        nodes, token = page(found, request.page_size, request.page_token, lambda node: str(node.name))
        return tpu.ListNodesResponse(nodes=nodes, next_page_token=token, unreachable=unreachable)

    async def get_node(self, request: tpu.GetNodeRequest) -> tpu.Node:
        """One node."""
        return self._nodes.get(request.name).node

    async def create_node(self, request: tpu.CreateNodeRequest) -> Any:
        """The operation that makes a node."""
        return self._nodes.create(parse_place(request.parent), request.node_id, request.node)

    async def delete_node(self, request: tpu.DeleteNodeRequest) -> Any:
        """The operation that deletes a node."""
        return self._nodes.delete(request.name)

    async def stop_node(self, request: tpu.StopNodeRequest) -> Any:
        """The operation that stops a node."""
        return self._nodes.stop(request.name)

    async def start_node(self, request: tpu.StartNodeRequest) -> Any:
        """The operation that starts a stopped node."""
        return self._nodes.start(request.name)

    async def update_node(self, request: tpu.UpdateNodeRequest) -> Any:
        """The operation that changes a node's description, tags, labels, metadata or external addresses."""
        return self._nodes.update(request.node, request.update_mask.paths)

    async def get_guest_attributes(self, request: tpu.GetGuestAttributesRequest) -> tpu.GetGuestAttributesResponse:
        """What the workers' machines publish, their host keys among it."""
        hosted = self._nodes.get(request.name)
        if not hosted.is_running:
            state = tpu.Node.State(hosted.node.state).name
            raise rpc_errors.precondition(f"The TPU node '{request.name}' is {state} and has no guest attributes.")
        return guest_attributes(hosted.workers, request.query_path, request.worker_ids)

    async def list_queued_resources(self, request: tpu.ListQueuedResourcesRequest) -> tpu.ListQueuedResourcesResponse:
        """One page of a zone's queued resources, or of every zone's."""
        found, unreachable = self._gather(request.parent, self._queued.in_place)
        queued, token = page(found, request.page_size, request.page_token, lambda resource: str(resource.name))
        return tpu.ListQueuedResourcesResponse(
            queued_resources=queued, next_page_token=token, unreachable=unreachable
        )

    async def get_queued_resource(self, request: tpu.GetQueuedResourceRequest) -> tpu.QueuedResource:
        """One queued resource."""
        return self._queued.get(request.name).resource

    async def create_queued_resource(self, request: tpu.CreateQueuedResourceRequest) -> Any:
        """The operation that queues a request for nodes."""
        return self._queued.create(parse_place(request.parent), request.queued_resource_id, request.queued_resource)

    async def delete_queued_resource(self, request: tpu.DeleteQueuedResourceRequest) -> Any:
        """The operation that deletes a queued resource."""
        return self._queued.delete(request.name, request.force)

    async def reset_queued_resource(self, request: tpu.ResetQueuedResourceRequest) -> Any:
        """The operation that makes the nodes of a queued resource again."""
        return self._queued.reset(request.name)

    async def list_accelerator_types(
        self, request: tpu.ListAcceleratorTypesRequest
    ) -> tpu.ListAcceleratorTypesResponse:
        """One page of the accelerator types on offer."""
        _refuse_filter(request)
        found = catalogue.accelerator_types(parse_place(request.parent))
        types, token = page(found, request.page_size, request.page_token, lambda one: str(one.name))
        return tpu.ListAcceleratorTypesResponse(accelerator_types=types, next_page_token=token)

    async def get_accelerator_type(self, request: tpu.GetAcceleratorTypeRequest) -> tpu.AcceleratorType:
        """One accelerator type."""
        id_of(request.name, "acceleratorTypes")
        return _named(catalogue.accelerator_types(parse_place(request.name)), request.name)

    async def list_runtime_versions(self, request: tpu.ListRuntimeVersionsRequest) -> tpu.ListRuntimeVersionsResponse:
        """One page of the runtime versions on offer."""
        _refuse_filter(request)
        found = catalogue.runtime_versions(parse_place(request.parent))
        versions, token = page(found, request.page_size, request.page_token, lambda one: str(one.name))
        return tpu.ListRuntimeVersionsResponse(runtime_versions=versions, next_page_token=token)

    async def get_runtime_version(self, request: tpu.GetRuntimeVersionRequest) -> tpu.RuntimeVersion:
        """One runtime version."""
        id_of(request.name, "runtimeVersions")
        return _named(catalogue.runtime_versions(parse_place(request.name)), request.name)

    async def generate_service_identity(
        self,
        request: tpu.GenerateServiceIdentityRequest,  # noqa: ARG002
    ) -> tpu.GenerateServiceIdentityResponse:
        """The account that the service acts as in the project."""
        email = f"service-{self.project}@cloud-tpu.iam.gserviceaccount.com"
        return tpu.GenerateServiceIdentityResponse(identity=tpu.ServiceIdentity(email=email))

    async def list_locations(self, request: Any) -> Any:
        """The zones that exist."""
        locations = [self._location(zone) for zone in self.zones]
        found, token = page(locations, request.page_size, request.page_token, lambda one: str(one.name))
        return locations_pb2.ListLocationsResponse(locations=found, next_page_token=token)

    async def get_location(self, request: Any) -> Any:
        """One zone."""
        return self._location(parse_place(request.name).zone)

    def _location(self, zone: str) -> Any:
        return locations_pb2.Location(
            name=str(ResourceLocation(self.project, zone)),
            location_id=zone,
            labels={"cloud.googleapis.com/region": zone.rpartition("-")[0] or zone},
        )

    async def list_operations(self, request: Any) -> Any:
        """One page of a zone's operations."""
        if request.filter:
            raise rpc_errors.unimplemented("Filters of operations are not implemented.")
        found, token = self._operations.page(parse_place(request.name), request.page_size, request.page_token)
        return operations_pb2.ListOperationsResponse(operations=found, next_page_token=token)

    async def get_operation(self, request: Any) -> Any:
        """One operation."""
        return self._operations.get(request.name)

    async def wait_operation(self, request: Any) -> Any:
        """One operation once it is done, or when the time given is over."""
        seconds = request.timeout.ToTimedelta().total_seconds() if request.HasField("timeout") else None
        return await self._operations.wait(request.name, seconds)

    async def cancel_operation(self, request: Any) -> Any:
        """Wish for the cancellation of an operation."""
        self._operations.cancel(request.name)
        return empty_pb2.Empty()

    async def delete_operation(self, request: Any) -> Any:
        """Forget an operation's result."""
        self._operations.delete(request.name)
        return empty_pb2.Empty()


def _named(items: Sequence[T], name: str) -> T:
    for item in items:
        if getattr(item, "name", None) == name:
            return item
    raise rpc_errors.not_found(name)


def _refuse_filter(request: Any) -> None:
    if request.filter or request.order_by:
        raise rpc_errors.unimplemented("filter and order_by are not implemented.")

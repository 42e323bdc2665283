"""The API's methods as gRPC and REST both see them, and what every request goes through first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.handlers import Calls
from tui.localpod.api.resources.resource_names import ANY_ZONE, parse_place

TPU = "google.cloud.tpu.v2.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"


@dataclass(frozen=True)
class Method:
    """One method: its gRPC service, its request's type, the permission it needs, what answers it."""

    service: str
    request: Any
    permission: str
    run: Callable[[Calls, Any], Awaitable[Any]]

    @property
    def name(self) -> str:
        """The method's name, which its request's type is named after."""
        return str(self.request.__name__).removesuffix("Request")


METHODS = (
    Method(TPU, tpu.ListNodesRequest, "tpu.nodes.list", Calls.list_nodes),
    Method(TPU, tpu.GetNodeRequest, "tpu.nodes.get", Calls.get_node),
    Method(TPU, tpu.CreateNodeRequest, "tpu.nodes.create", Calls.create_node),
    Method(TPU, tpu.DeleteNodeRequest, "tpu.nodes.delete", Calls.delete_node),
    Method(TPU, tpu.StopNodeRequest, "tpu.nodes.stop", Calls.stop_node),
    Method(TPU, tpu.StartNodeRequest, "tpu.nodes.start", Calls.start_node),
    Method(TPU, tpu.UpdateNodeRequest, "tpu.nodes.update", Calls.update_node),
    Method(TPU, tpu.ListQueuedResourcesRequest, "tpu.queuedResources.list", Calls.list_queued_resources),
    Method(TPU, tpu.GetQueuedResourceRequest, "tpu.queuedResources.get", Calls.get_queued_resource),
    Method(TPU, tpu.CreateQueuedResourceRequest, "tpu.queuedResources.create", Calls.create_queued_resource),
    Method(TPU, tpu.DeleteQueuedResourceRequest, "tpu.queuedResources.delete", Calls.delete_queued_resource),
    Method(TPU, tpu.ResetQueuedResourceRequest, "tpu.queuedResources.reset", Calls.reset_queued_resource),
    Method(TPU, tpu.ListAcceleratorTypesRequest, "tpu.acceleratortypes.list", Calls.list_accelerator_types),
    Method(TPU, tpu.GetAcceleratorTypeRequest, "tpu.acceleratortypes.get", Calls.get_accelerator_type),
    Method(TPU, tpu.ListRuntimeVersionsRequest, "tpu.runtimeversions.list", Calls.list_runtime_versions),
    Method(TPU, tpu.GetRuntimeVersionRequest, "tpu.runtimeversions.get", Calls.get_runtime_version),
    Method(TPU, tpu.GetGuestAttributesRequest, "tpu.nodes.getGuestAttributes", Calls.get_guest_attributes),
    Method(
        TPU,
        tpu.GenerateServiceIdentityRequest,
        "tpu.locations.generateServiceIdentity",
        Calls.generate_service_identity,
    ),
    Method(LOCATIONS, locations_pb2.ListLocationsRequest, "tpu.locations.list", Calls.list_locations),
    Method(LOCATIONS, locations_pb2.GetLocationRequest, "tpu.locations.get", Calls.get_location),
    Method(OPERATIONS, operations_pb2.ListOperationsRequest, "tpu.operations.list", Calls.list_operations),
    Method(OPERATIONS, operations_pb2.GetOperationRequest, "tpu.operations.get", Calls.get_operation),
    Method(OPERATIONS, operations_pb2.WaitOperationRequest, "tpu.operations.get", Calls.wait_operation),
    Method(OPERATIONS, operations_pb2.CancelOperationRequest, "tpu.operations.cancel", Calls.cancel_operation),
    Method(OPERATIONS, operations_pb2.DeleteOperationRequest, "tpu.operations.delete", Calls.delete_operation),
)
"""Everything that is served (google/cloud/tpu/v2/cloud_tpu.proto and the two mix-ins)."""

_EVERY_ZONE = frozenset({"ListNodes", "ListQueuedResources"})
"""Methods that take `locations/-`."""


class Api:
    """Answers requests: latency and faults first, then permissions, then the method itself."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def call(self, method: Method, request: Any) -> Any:
        """The answer, a proto-plus or protobuf message; raises ApiError."""
        await self._calls.behaviour.delay()
        self._calls.behaviour.check_token()
        self._authorise(method, resource_of(request))
        return await method.run(self._calls, request)

    def _authorise(self, method: Method, resource: str) -> None:
        """Raise unless the resource is in the pod's project and in a zone that exists and answers."""
        head, _, rest = resource.partition("/")
        if head == "projects" and rest.partition("/")[0] != self._calls.project:
            raise rpc_errors.permission_denied(method.permission, resource)
        if method.name == "ListLocations":
            return
        zone = parse_place(resource).zone
        if zone == ANY_ZONE and method.name in _EVERY_ZONE:
            return
        if zone not in self._calls.zones:
            raise rpc_errors.unknown_location(zone)
        if self._calls.behaviour.is_unavailable(zone):
            raise rpc_errors.unavailable()


def resource_of(request: Any) -> str:
    """The full name, or the parent, that a request is about."""
    for field in ("parent", "name"):
        if hasattr(request, field):
            return str(getattr(request, field))
    return str(request.node.name)

"""The API's methods as gRPC and REST both see them, and what every request goes through first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.handlers import ApiHandlers
from tui.localpod.api.resources.resource_names import ANY_ZONE, parse_place

TPU = "google.cloud.tpu.v2.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"


@dataclass(frozen=True)
class ApiMethod:
    """One method: its gRPC service, its request's type, the permission it needs, what answers it."""

    service: str
    request: Any
    permission: str
    run: Callable[[ApiHandlers, Any], Awaitable[Any]]

    @property
    def name(self) -> str:
        """The method's name, which its request's type is named after."""
        return str(self.request.__name__).removesuffix("Request")


METHODS = (
    ApiMethod(TPU, tpu.ListNodesRequest, "tpu.nodes.list", ApiHandlers.list_nodes),
    ApiMethod(TPU, tpu.GetNodeRequest, "tpu.nodes.get", ApiHandlers.get_node),
    ApiMethod(TPU, tpu.CreateNodeRequest, "tpu.nodes.create", ApiHandlers.create_node),
    ApiMethod(TPU, tpu.DeleteNodeRequest, "tpu.nodes.delete", ApiHandlers.delete_node),
    ApiMethod(TPU, tpu.StopNodeRequest, "tpu.nodes.stop", ApiHandlers.stop_node),
    ApiMethod(TPU, tpu.StartNodeRequest, "tpu.nodes.start", ApiHandlers.start_node),
    ApiMethod(TPU, tpu.UpdateNodeRequest, "tpu.nodes.update", ApiHandlers.update_node),
    ApiMethod(TPU, tpu.ListQueuedResourcesRequest, "tpu.queuedResources.list", ApiHandlers.list_queued_resources),
    ApiMethod(TPU, tpu.GetQueuedResourceRequest, "tpu.queuedResources.get", ApiHandlers.get_queued_resource),
    ApiMethod(TPU, tpu.CreateQueuedResourceRequest, "tpu.queuedResources.create", ApiHandlers.create_queued_resource),
    ApiMethod(TPU, tpu.DeleteQueuedResourceRequest, "tpu.queuedResources.delete", ApiHandlers.delete_queued_resource),
    ApiMethod(TPU, tpu.ResetQueuedResourceRequest, "tpu.queuedResources.reset", ApiHandlers.reset_queued_resource),
    ApiMethod(TPU, tpu.ListAcceleratorTypesRequest, "tpu.acceleratortypes.list", ApiHandlers.list_accelerator_types),
    ApiMethod(TPU, tpu.GetAcceleratorTypeRequest, "tpu.acceleratortypes.get", ApiHandlers.get_accelerator_type),
    ApiMethod(TPU, tpu.ListRuntimeVersionsRequest, "tpu.runtimeversions.list", ApiHandlers.list_runtime_versions),
    ApiMethod(TPU, tpu.GetRuntimeVersionRequest, "tpu.runtimeversions.get", ApiHandlers.get_runtime_version),
    ApiMethod(TPU, tpu.GetGuestAttributesRequest, "tpu.nodes.getGuestAttributes", ApiHandlers.get_guest_attributes),
    ApiMethod(
        TPU,
        tpu.GenerateServiceIdentityRequest,
        "tpu.locations.generateServiceIdentity",
        ApiHandlers.generate_service_identity,
    ),
    ApiMethod(LOCATIONS, locations_pb2.ListLocationsRequest, "tpu.locations.list", ApiHandlers.list_locations),
    ApiMethod(LOCATIONS, locations_pb2.GetLocationRequest, "tpu.locations.get", ApiHandlers.get_location),
    ApiMethod(OPERATIONS, operations_pb2.ListOperationsRequest, "tpu.operations.list", ApiHandlers.list_operations),
    ApiMethod(OPERATIONS, operations_pb2.GetOperationRequest, "tpu.operations.get", ApiHandlers.get_operation),
    ApiMethod(OPERATIONS, operations_pb2.WaitOperationRequest, "tpu.operations.get", ApiHandlers.wait_operation),
    ApiMethod(
        OPERATIONS, operations_pb2.CancelOperationRequest, "tpu.operations.cancel", ApiHandlers.cancel_operation
    ),
    ApiMethod(
        OPERATIONS, operations_pb2.DeleteOperationRequest, "tpu.operations.delete", ApiHandlers.delete_operation
    ),
)
"""Everything that is served (google/cloud/tpu/v2/cloud_tpu.proto and the two mix-ins)."""

_EVERY_ZONE = frozenset({"ListNodes", "ListQueuedResources"})
"""Methods that take `locations/-`."""


class ApiRouter:
    """Answers requests: latency and faults first, then permissions, then the method itself."""

    def __init__(self, calls: ApiHandlers) -> None:
        self._calls = calls

    async def call(self, method: ApiMethod, request: Any) -> Any:
        """The answer, a proto-plus or protobuf message; raises ApiError."""
        await self._calls.behaviour.delay()
        self._calls.behaviour.check_token()
        self._authorise(method, resource_of(request))
        return await method.run(self._calls, request)

    def _authorise(self, method: ApiMethod, resource: str) -> None:
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

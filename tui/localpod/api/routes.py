"""The methods that gRPC and REST both serve, and the checks that every request passes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import google.cloud.tpu_v1.types as v1
import google.cloud.tpu_v2.types as tpu
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tui.localpod.api import rpc_errors, v1_handlers
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.handlers import ApiHandlers
from tui.localpod.api.resources.resource_names import ANY_ZONE, parse_place

TPU = "google.cloud.tpu.v2.Tpu"
TPU_V1 = "google.cloud.tpu.v1.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"


@dataclass(frozen=True)
class ApiMethod:
    """One method: its gRPC service, the type of its requests, the permission that it needs, and its handler."""

    service: str
    request: Any
    permission: str
    run: Callable[[ApiHandlers, Any], Any]
    """Takes the request message and returns the answer."""

    @property
    def name(self) -> str:
        """The method's name, which is that of its request type without `Request`."""
        return str(self.request.__name__).removesuffix("Request")


METHODS: tuple[ApiMethod, ...] = (
    ApiMethod(TPU, tpu.ListNodesRequest, "tpu.nodes.list", ApiHandlers.list_nodes),
    ApiMethod(TPU, tpu.GetNodeRequest, "tpu.nodes.get", lambda api, request: api.nodes.get(request.name).node),
    ApiMethod(
        TPU,
        tpu.CreateNodeRequest,
        "tpu.nodes.create",
        lambda api, request: api.nodes.create(parse_place(request.parent), request.node_id, request.node),
    ),
    ApiMethod(TPU, tpu.DeleteNodeRequest, "tpu.nodes.delete", lambda api, request: api.nodes.delete(request.name)),
    ApiMethod(TPU, tpu.StopNodeRequest, "tpu.nodes.stop", lambda api, request: api.nodes.stop(request.name)),
    ApiMethod(TPU, tpu.StartNodeRequest, "tpu.nodes.start", lambda api, request: api.nodes.start(request.name)),
    ApiMethod(
        TPU,
        tpu.UpdateNodeRequest,
        "tpu.nodes.update",
        lambda api, request: api.nodes.update(request.node, request.update_mask.paths),
    ),
    ApiMethod(TPU, tpu.ListQueuedResourcesRequest, "tpu.queuedResources.list", ApiHandlers.list_queued_resources),
    ApiMethod(
        TPU,
        tpu.GetQueuedResourceRequest,
        "tpu.queuedResources.get",
        lambda api, request: api.queued.get(request.name).resource,
    ),
    ApiMethod(
        TPU,
        tpu.CreateQueuedResourceRequest,
        "tpu.queuedResources.create",
        lambda api, request: api.queued.create(
            parse_place(request.parent), request.queued_resource_id, request.queued_resource
        ),
    ),
    ApiMethod(
        TPU,
        tpu.DeleteQueuedResourceRequest,
        "tpu.queuedResources.delete",
        lambda api, request: api.queued.delete(request.name, request.force),
    ),
    ApiMethod(
        TPU,
        tpu.ResetQueuedResourceRequest,
        "tpu.queuedResources.reset",
        lambda api, request: api.queued.reset(request.name),
    ),
    ApiMethod(TPU, tpu.ListAcceleratorTypesRequest, "tpu.acceleratortypes.list", ApiHandlers.list_accelerator_types),
    ApiMethod(TPU, tpu.ListRuntimeVersionsRequest, "tpu.runtimeversions.list", ApiHandlers.list_runtime_versions),
    ApiMethod(TPU, tpu.GetGuestAttributesRequest, "tpu.nodes.getGuestAttributes", ApiHandlers.get_guest_attributes),
    ApiMethod(TPU_V1, v1.ListNodesRequest, "tpu.nodes.list", v1_handlers.list_nodes),
    ApiMethod(TPU_V1, v1.GetNodeRequest, "tpu.nodes.get", v1_handlers.get_node),
    ApiMethod(TPU_V1, v1.CreateNodeRequest, "tpu.nodes.create", v1_handlers.create_node),
    ApiMethod(TPU_V1, v1.DeleteNodeRequest, "tpu.nodes.delete", lambda api, request: api.nodes.delete(request.name)),
    ApiMethod(TPU_V1, v1.StopNodeRequest, "tpu.nodes.stop", lambda api, request: api.nodes.stop(request.name)),
    ApiMethod(TPU_V1, v1.StartNodeRequest, "tpu.nodes.start", lambda api, request: api.nodes.start(request.name)),
    ApiMethod(
        TPU_V1, v1.ListAcceleratorTypesRequest, "tpu.acceleratortypes.list", v1_handlers.list_accelerator_types
    ),
    ApiMethod(
        TPU_V1,
        v1.ListTensorFlowVersionsRequest,
        "tpu.tensorflowversions.list",
        v1_handlers.list_tensorflow_versions,
    ),
    ApiMethod(LOCATIONS, locations_pb2.ListLocationsRequest, "tpu.locations.list", ApiHandlers.list_locations),
    ApiMethod(OPERATIONS, operations_pb2.ListOperationsRequest, "tpu.operations.list", ApiHandlers.list_operations),
    ApiMethod(
        OPERATIONS,
        operations_pb2.GetOperationRequest,
        "tpu.operations.get",
        lambda api, request: api.operations.get(request.name),
    ),
)
"""Every method that is served (cloud_tpu.proto of google/cloud/tpu/v2 and v1, and the two mix-ins)."""

_EVERY_ZONE = frozenset({"ListNodes", "ListQueuedResources"})
"""Methods that accept `locations/-`."""


class ApiRouter:
    """Answers requests about the pod's project and zones."""

    def __init__(self, handlers: ApiHandlers, conditions: ServiceConditions) -> None:
        self._handlers = handlers
        self._conditions = conditions

    async def call(self, method: ApiMethod, request: Any) -> Any:
        """Return the answer, a proto-plus or protobuf message. Raises ApiError."""
        self._check_resource(method, resource_of(request))
        await self._conditions.before_call(method.name, request)
        operations, run = self._handlers.operations, partial(method.run, self._handlers, request)
        request_id = getattr(request, "request_id", "")
        answer = operations.once(request_id, run) if request_id else run()
        if method.service == TPU_V1 and isinstance(answer, operations_pb2.Operation):
            answer = operations.in_v1(answer)
        self._conditions.after_call(method.name, request, answer)
        return answer

    def _check_resource(self, method: ApiMethod, resource: str) -> None:
        """Raise ApiError unless the resource is in the pod's project and in a zone that exists."""
        head, _, rest = resource.partition("/")
        if head == "projects" and rest.partition("/")[0] != self._handlers.project:
            raise rpc_errors.permission_denied(method.permission, resource)
        if method.name == "ListLocations":
            return
        zone = parse_place(resource).zone
        if zone == ANY_ZONE and method.name in _EVERY_ZONE:
            return
        if zone not in self._handlers.zones:
            raise rpc_errors.unknown_location(zone)


def resource_of(request: Any) -> str:
    """Return the full name of the resource that a request concerns, or its parent."""
    for field in ("parent", "name"):
        if hasattr(request, field):
            return str(getattr(request, field))
    return str(request.node.name)

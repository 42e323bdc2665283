"""Queued resources: requests that wait for capacity, then create their nodes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.protobuf import empty_pb2

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api import rpc_errors
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.resources.node_fields import V2
from tui.localpod.api.resources.nodes import COLLECTION as NODES
from tui.localpod.api.resources.nodes import HostedNode, Nodes
from tui.localpod.api.resources.operations import Operations
from tui.localpod.api.resources.resource_names import ResourceLocation, check_id, check_name
from tui.localpod.api.transport.messages import now

COLLECTION = "queuedResources"
CAPACITY_POLL_INTERVAL_S = 0.2
"""The interval at which a waiting request checks for capacity."""

_LOG = logging.getLogger(__name__)

State: Any = tpu.QueuedResourceState.State
NodeState: Any = tpu.Node.State
Initiator: Any = tpu.QueuedResourceState.StateInitiator
_DELETABLE = (State.ACCEPTED, State.WAITING_FOR_RESOURCES, State.FAILED, State.SUSPENDED)
"""States in which a request can be deleted without `force` (DeleteQueuedResourceRequest)."""
_RESETTABLE = (State.ACTIVE, State.SUSPENDED, State.FAILED)


@dataclass
class Request:
    """A queued resource and its work; `task` runs while it waits or provisions."""

    place: ResourceLocation
    resource: tpu.QueuedResource
    nodes: Mapping[str, tpu.Node]
    """The nodes to create, by ID."""
    deadline: float | None
    task: asyncio.Task[None] | None = None
    busy: bool = False

    @property
    def state(self) -> Any:
        """The state of the request."""
        return State(self.resource.state.state)


class QueuedResources:
    """Every queued resource of the pod, by full name."""

    def __init__(
        self, nodes: Nodes, operations: Operations, conditions: ServiceConditions, tasks: BackgroundTasks
    ) -> None:
        self._nodes = nodes
        self._operations = operations
        self._conditions = conditions
        self._tasks = tasks
        self._requests: dict[str, Request] = {}

    def in_place(self, place: ResourceLocation) -> list[tpu.QueuedResource]:
        """Return the place's queued resources as they are now."""
        return [self._settle(request).resource for request in self._requests.values() if request.place == place]

    def get(self, name: str) -> Request:
        """Return one queued resource as it is now. Raises NOT_FOUND."""
        check_name(name, COLLECTION)
        if name not in self._requests:
            raise rpc_errors.not_found(name)
        return self._settle(self._requests[name])

    def create(self, place: ResourceLocation, resource_id: str, wanted: tpu.QueuedResource) -> Any:
        """Return CreateQueuedResource's operation, which ends when the request is queued, before its nodes exist."""
        resource_id = resource_id or f"qr-{secrets.token_hex(4)}"
        check_id(resource_id, "queued_resource_id")
        name = place.child(COLLECTION, resource_id)
        if name in self._requests:
            raise rpc_errors.already_exists(name)
        nodes = _requested_nodes(place, resource_id, wanted)
        shapes = [self._nodes.check_new(place, *node, "node_spec.node_id") for node in nodes.items()]
        self._nodes.check_quota(place, shapes[0].generation, sum(shape.workers for shape in shapes))
        resource = tpu.QueuedResource(wanted)
        resource.name = name
        resource.create_time = now()
        request = Request(place, resource, nodes, _deadline(wanted))
        self._requests[name] = request
        self._enter(request, State.ACCEPTED)
        request.task = self._tasks.start(self._fulfil(request))

        async def queued() -> Any:
            return tpu.QueuedResource.pb(resource)

        return self._operations.start(place, "create", name, queued)

    def delete(self, name: str, force: bool) -> Any:
        """Return DeleteQueuedResource's operation. `force` deletes the nodes too; otherwise there must be none."""
        request = self._idle(name)
        if not force and request.state not in _DELETABLE and self._existing(request):
            state = request.state.name
            raise rpc_errors.precondition(
                f"The queued resource '{name}' is {state} and has nodes: delete them or use force."
            )
        request.busy = True
        if request.task is not None:
            request.task.cancel()
        self._enter(request, State.DELETING, Initiator.USER)

        async def remove() -> Any:
            try:
                await asyncio.gather(*filter(None, [request.task]), return_exceptions=True)
                if force:
                    await self._delete_nodes(request)
            finally:
                request.busy = False
            del self._requests[name]
            return empty_pb2.Empty()

        return self._operations.start(request.place, "delete", name, remove)

    def reset(self, name: str) -> Any:
        """Return ResetQueuedResource's operation, which deletes the nodes and creates them again."""
        request = self._idle(name)
        if request.state not in _RESETTABLE:
            raise rpc_errors.precondition(
                f"The queued resource '{name}' is {request.state.name}: it cannot be reset."
            )
        request.busy = True
        before = tpu.QueuedResourceState(request.resource.state)
        self._enter(request, State.SUSPENDING, Initiator.USER)

        async def begin_again() -> Any:
            try:
                self._conditions.check_operation("reset")
                await self._delete_nodes(request)
            except BaseException:
                request.resource.state = before
                raise
            finally:
                request.busy = False
            self._enter(request, State.ACCEPTED)
            request.task = self._tasks.start(self._fulfil(request))
            return tpu.QueuedResource.pb(request.resource)

        return self._operations.start(request.place, "reset", name, begin_again)

    def _idle(self, name: str) -> Request:
        """Return a queued resource to change. Raises ABORTED while another operation is in progress."""
        request = self.get(name)
        if request.busy:
            raise rpc_errors.busy()
        return request

    async def _fulfil(self, request: Request) -> None:
        try:
            await self._conditions.operation_delay()
            await self._wait_for_capacity(request)
            self._enter(request, State.PROVISIONING)
            admitted = self._admit(request)
            await self._conditions.operation_delay()
            await self._bring_up(admitted)
            self._enter(request, State.ACTIVE)
        except rpc_errors.ApiError as error:
            await self._fail(request, error)
        except Exception as error:
            _LOG.exception("%s could not be provisioned", request.resource.name)
            await self._fail(request, rpc_errors.ApiError("INTERNAL", f"Internal error: {error}"))

    async def _wait_for_capacity(self, request: Request) -> None:
        workers = sum(
            self._nodes.check_new(request.place, *node, "node_spec.node_id").workers for node in request.nodes.items()
        )
        while not self._nodes.has_capacity(request.place, workers):
            if request.deadline is not None and time.time() >= request.deadline:
                raise rpc_errors.no_capacity(request.place.zone)
            self._enter(request, State.WAITING_FOR_RESOURCES)
            await asyncio.sleep(CAPACITY_POLL_INTERVAL_S)

    def _admit(self, request: Request) -> list[HostedNode]:
        admitted: list[HostedNode] = []
        for node_id, node in request.nodes.items():
            hosted = self._nodes.admit(request.place, node_id, node, request.resource.name)
            hosted.node.multislice_node = len(request.nodes) > 1
            admitted.append(hosted)
        return admitted

    async def _bring_up(self, admitted: Sequence[HostedNode]) -> None:
        tasks = [asyncio.ensure_future(self._nodes.bring_up(hosted)) for hosted in admitted]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _delete_nodes(self, request: Request) -> None:
        for hosted in self._existing(request):
            before: Any = NodeState(hosted.node.state)
            hosted.busy = True
            hosted.node.state = NodeState.DELETING
            await self._nodes.tear_down(hosted, before)

    def _existing(self, request: Request) -> list[HostedNode]:
        candidates = (self._nodes.find(request.place.child(NODES, node_id)) for node_id in request.nodes)
        return [hosted for hosted in candidates if hosted and hosted.node.queued_resource == request.resource.name]

    def _settle(self, request: Request) -> Request:
        """Return the request; an active one that lost a node, deleted or preempted, becomes SUSPENDED."""
        if request.state == State.ACTIVE:
            nodes = self._existing(request)
            if any(hosted.node.state == NodeState.PREEMPTED for hosted in nodes):
                self._enter(request, State.SUSPENDED, Initiator.SERVICE)
            elif len(nodes) < len(request.nodes):
                self._enter(request, State.SUSPENDED, Initiator.USER)
        return request

    async def _fail(self, request: Request, error: rpc_errors.ApiError) -> None:
        self._enter(request, State.FAILED)
        request.resource.state.failed_data.error = error.to_status()
        await self._delete_nodes(request)

    def _enter(self, request: Request, state: Any, initiator: Any = None) -> None:
        """Set the state and its data message (`active_data` and so on)."""
        entered = tpu.QueuedResourceState(state=state)
        if initiator is not None and state in (State.SUSPENDING, State.SUSPENDED):
            entered.state_initiator = initiator
        if state != State.WAITING_FOR_RESOURCES:
            getattr(tpu.QueuedResourceState.pb(entered), f"{state.name.lower()}_data").SetInParent()
        request.resource.state = entered


def _requested_nodes(place: ResourceLocation, resource_id: str, resource: tpu.QueuedResource) -> dict[str, tpu.Node]:
    """Return the nodes that a queued resource creates, by ID. Raises INVALID_ARGUMENT."""
    nodes: list[tuple[str, tpu.Node]] = []
    for spec in resource.tpu.node_spec:
        if spec.parent and spec.parent != str(place):
            raise rpc_errors.invalid(f"the parent of the node spec must be '{place}'", "node_spec.parent")
        node = tpu.Node(spec.node)
        node.api_version = V2
        if "spot" in resource:
            node.scheduling_config.spot = True
        if resource.reservation_name:
            node.scheduling_config.reserved = True
        if "multislice_params" in spec:
            if spec.multislice_params.node_count < 2:
                raise rpc_errors.invalid(
                    "node_count must be greater than 1", "node_spec.multislice_params.node_count"
                )
            prefix = spec.multislice_params.node_id_prefix or resource_id
            nodes += [(f"{prefix}-{i}", node) for i in range(spec.multislice_params.node_count)]
        else:
            nodes.append((spec.node_id, node))
    if not nodes:
        raise rpc_errors.invalid("a queued resource needs at least one node spec", "queued_resource.tpu.node_spec")
    if len(dict(nodes)) < len(nodes):
        raise rpc_errors.invalid("the node IDs of a queued resource must differ", "queued_resource.tpu.node_spec")
    return dict(nodes)


def _deadline(resource: tpu.QueuedResource) -> float | None:
    """Return when the request stops waiting, in seconds since the epoch; None if it never does."""
    policy: Any = resource.queueing_policy
    if "valid_until_duration" in policy:
        return time.time() + float(policy.valid_until_duration.total_seconds())
    if "valid_until_time" in policy:
        return float(policy.valid_until_time.timestamp())
    if "valid_interval" in policy:
        return float(tpu.QueuedResource.pb(resource).queueing_policy.valid_interval.end_time.seconds)
    return None

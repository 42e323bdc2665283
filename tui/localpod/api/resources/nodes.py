"""The nodes of the pod: how they are created, stopped, started, deleted, and preempted when a worker dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.protobuf import empty_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.host_protocol import HostedWorker, WorkerHosts
from tui.localpod.api.resources import node_fields, tpu_nodes
from tui.localpod.api.resources.accelerator_types import SliceShape
from tui.localpod.api.resources.operations import Operations
from tui.localpod.api.resources.resource_names import ResourceLocation, check_id, check_name
from tui.localpod.api.resources.zone_offers import check_runtime_version, requested_shape
from tui.pod import accelerator
from tui.pod.creation.machine_request import STARTUP_SCRIPT
from tui.pod.slice import SSH_KEYS

COLLECTION = "nodes"
State: Any = tpu.Node.State
Health: Any = tpu.Node.Health


@dataclass
class HostedNode:
    """A node and its machines; `busy` while an operation works on it."""

    place: ResourceLocation
    slice_name: str
    node: tpu.Node
    shape: SliceShape
    cores: int
    workers: list[HostedWorker] = field(default_factory=list)
    busy: bool = True

    @property
    def is_running(self) -> bool:
        """Return whether the node has machines, or had them until some died."""
        return self.node.state in (State.READY, State.PREEMPTED)


class Nodes:
    """Every node of the pod, by full name."""

    def __init__(
        self,
        hosts: WorkerHosts,
        operations: Operations,
        conditions: ServiceConditions,
        *,
        first_zone: str,
        cores: int,
    ) -> None:
        self._hosts = hosts
        self._operations = operations
        self._conditions = conditions
        self._first_zone = first_zone
        self._cores = cores
        self._nodes: dict[str, HostedNode] = {}
        self.disk_exists: Callable[[str], bool] = lambda _: True
        """Returns whether a data disk exists, by its path; without a Compute Engine API, every disk does."""
        self.os_logins: Callable[[Mapping[str, str]], Mapping[str, Sequence[str]] | None] = lambda _: None
        """Returns the keys of each OS Login user name for a node with this metadata; None without OS Login."""

    def in_place(self, place: ResourceLocation) -> list[tpu.Node]:
        """Return the place's nodes as they are now."""
        return [self._settle(hosted).node for hosted in self._nodes.values() if hosted.place == place]

    def machines_with(self, disk: str) -> list[str]:
        """Return the paths of the machines that a disk is attached to, or of their slice during its creation."""
        return [
            f"projects/{hosted.place.project}/zones/{hosted.place.zone}/instances/{machine}"
            for hosted in self._nodes.values()
            if any(data_disk.source_disk == disk for data_disk in hosted.node.data_disks)
            for machine in [worker.hostname for worker in hosted.workers] or [hosted.slice_name]
        ]

    def get(self, name: str) -> HostedNode:
        """Return one node as it is now. Raises NOT_FOUND."""
        check_name(name, COLLECTION)
        if (hosted := self.find(name)) is None:
            raise rpc_errors.not_found(name)
        return hosted

    def find(self, name: str) -> HostedNode | None:
        """Return one node as it is now; None if it does not exist."""
        return self._settle(self._nodes[name]) if name in self._nodes else None

    def create(
        self, place: ResourceLocation, node_id: str, wanted: tpu.Node, api_version: Any = node_fields.V2
    ) -> Any:
        """Return CreateNode's operation, which brings the node up: a TPU Node in v1, a TPU VM in v2."""
        wanted.api_version = api_version
        hosted = self.admit(place, node_id, wanted)
        return self._operations.start(place, "create", hosted.node.name, lambda: self.bring_up(hosted))

    def delete(self, name: str) -> Any:
        """Return DeleteNode's operation, at the end of which the node is gone."""
        hosted = self.get(name)
        before = State(hosted.node.state)
        self._claim(hosted, State.DELETING)
        return self._operations.start(hosted.place, "delete", name, lambda: self.tear_down(hosted, before))

    def stop(self, name: str) -> Any:
        """Return StopNode's operation. Raises FAILED_PRECONDITION unless the node has one worker and is READY."""
        hosted = self._require_single(name, State.READY)
        self._claim(hosted, State.STOPPING)
        return self._operations.start(hosted.place, "stop", name, lambda: self._halt(hosted))

    def start(self, name: str) -> Any:
        """Return StartNode's operation. Raises FAILED_PRECONDITION unless the node has one worker and is STOPPED."""
        hosted = self._require_single(name, State.STOPPED)
        self._claim(hosted, State.STARTING)
        return self._operations.start(hosted.place, "start", name, lambda: self._restart(hosted))

    def update(self, wanted: tpu.Node, mask: Iterable[str]) -> Any:
        """Return UpdateNode's operation, which changes only the fields that the mask names."""
        hosted = self.get(wanted.name)
        paths = node_fields.update_paths(wanted, mask)
        self._claim(hosted, hosted.node.state)

        async def apply() -> Any:
            node_fields.apply_update(hosted.node, wanted, paths, hosted.workers)
            self._authorize(hosted)
            return self._release(hosted)

        return self._operations.start(hosted.place, "update", wanted.name, apply)

    def check_new(self, place: ResourceLocation, node_id: str, wanted: tpu.Node, field_name: str) -> SliceShape:
        """Return the shape of a new node. Raises the errors of CreateNode, except for the quota."""
        check_id(node_id, field_name)
        name = place.child(COLLECTION, node_id)
        shape = requested_shape(place, wanted)
        for disk in wanted.data_disks:
            if not self.disk_exists(disk.source_disk):
                raise rpc_errors.invalid(f"the disk '{disk.source_disk}' was not found", "node.data_disks")
        self._new_node(place, name, wanted, shape)
        if name in self._nodes:
            raise rpc_errors.already_exists(name)
        return shape

    def check_quota(self, place: ResourceLocation, generation: str, more: int) -> None:
        """Raise RESOURCE_EXHAUSTED if the project may not have this many more workers."""
        if sum(hosted.shape.workers for hosted in self._nodes.values()) + more > self._conditions.worker_quota:
            raise rpc_errors.quota_exceeded(generation, self._conditions.worker_quota, place.zone, place.project)

    def has_capacity(self, place: ResourceLocation, workers: int) -> bool:
        """Return whether the zone has this many unused workers."""
        if self._conditions.worker_capacity is None:
            return True
        in_use = (hosted for hosted in self._nodes.values() if hosted.place == place)
        used = sum(hosted.shape.workers for hosted in in_use if hosted.node.state != State.STOPPED)
        return used + workers <= self._conditions.worker_capacity

    def admit(self, place: ResourceLocation, node_id: str, wanted: tpu.Node, queued_resource: str = "") -> HostedNode:
        """Add a new node as CREATING, reserved for `bring_up`."""
        shape = self.check_new(place, node_id, wanted, "node_id")
        self.check_quota(place, shape.generation, shape.workers)
        node, cores = self._new_node(place, place.child(COLLECTION, node_id), wanted, shape)
        node.queued_resource = queued_resource
        hosted = HostedNode(place, self._slice_name(place, node_id), node, shape, cores)
        self._nodes[node.name] = hosted
        return hosted

    def _new_node(
        self, place: ResourceLocation, name: str, wanted: tpu.Node, shape: SliceShape
    ) -> tuple[tpu.Node, int]:
        """Return a new node, and the devices of each worker. Raises INVALID_ARGUMENT."""
        cores = node_fields.requested_cores(wanted, shape, self._cores)
        node = node_fields.new_node(place, name, wanted, shape, cores)
        if tpu_nodes.is_tpu_node(node):
            peers = [hosted.node for hosted in self._nodes.values() if tpu_nodes.is_tpu_node(hosted.node)]
            node.cidr_block = tpu_nodes.check_request(place, wanted, shape, [peer.cidr_block for peer in peers])
        else:
            check_runtime_version(place, wanted.runtime_version)
        return node, cores

    async def bring_up(self, hosted: HostedNode) -> Any:
        """Start an admitted node's machines; if that fails, the node is removed."""
        try:
            self._conditions.check_operation("create")
            await self._run_machines(hosted)
        except BaseException:
            self.discard(hosted)
            raise
        return self._release(hosted)

    async def tear_down(self, hosted: HostedNode, before: Any) -> Any:
        """Stop a claimed node's machines and remove the node; if that fails, restore its state `before`."""
        await self._or_restore(hosted, before, "delete", lambda: self._hosts.remove(hosted.slice_name))
        self.discard(hosted)
        return empty_pb2.Empty()

    def discard(self, hosted: HostedNode) -> None:
        """Remove a node that has no machines."""
        self._nodes.pop(hosted.node.name, None)

    def _claim(self, hosted: HostedNode, state: Any) -> None:
        """Reserve the node for one operation. Raises ABORTED while another operation is in progress."""
        if hosted.busy:
            raise rpc_errors.busy()
        hosted.busy = True
        hosted.node.state = state

    async def _halt(self, hosted: HostedNode) -> Any:
        await self._or_restore(hosted, State.READY, "stop", lambda: self._hosts.stop(hosted.slice_name))
        hosted.node.state = State.STOPPED
        hosted.node.health = Health.HEALTH_UNSPECIFIED
        return self._release(hosted)

    async def _restart(self, hosted: HostedNode) -> Any:
        await self._or_restore(hosted, State.STOPPED, "start", lambda: self._run_machines(hosted))
        return self._release(hosted)

    async def _or_restore(
        self, hosted: HostedNode, before: Any, verb: str, act: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            self._conditions.check_operation(verb)
            await act()
        except BaseException:
            hosted.node.state = before
            hosted.busy = False
            raise

    async def _run_machines(self, hosted: HostedNode) -> None:
        """Start a node's machines and mark it as READY. Raises RESOURCE_EXHAUSTED in a zone without capacity."""
        if not self.has_capacity(hosted.place, 0):
            raise rpc_errors.no_capacity(hosted.place.zone)
        if tpu_nodes.is_tpu_node(hosted.node):
            tpu_nodes.set_endpoints(hosted.node, hosted.shape.workers)
            node_fields.set_ready(hosted.node)
            return
        kind = accelerator.parse(hosted.shape.name)
        chips = kind.chips_per_worker if kind else None
        hosted.workers = await self._hosts.start(
            hosted.slice_name, hosted.shape.workers, hosted.cores, chips, hosted.node.metadata.get(STARTUP_SCRIPT, "")
        )
        node_fields.set_workers(hosted.node, hosted.workers)
        self._authorize(hosted)
        node_fields.set_ready(hosted.node)

    def authorize_all(self) -> None:
        """Update the keys that the machines accept, after a change of the project's metadata or of a profile."""
        for hosted in self._nodes.values():
            self._authorize(hosted)

    def _authorize(self, hosted: HostedNode) -> None:
        metadata = dict(hosted.node.metadata)
        self._hosts.authorize(hosted.slice_name, metadata.get(SSH_KEYS, ""), self.os_logins(metadata))

    def _release(self, hosted: HostedNode) -> Any:
        hosted.busy = False
        return tpu.Node.pb(hosted.node)

    def _settle(self, hosted: HostedNode) -> HostedNode:
        """Return the node after checking its machines: a node that lost one becomes PREEMPTED, permanently."""
        if hosted.node.state == State.READY:
            alive = self._hosts.alive(hosted.slice_name)
            gone = [
                worker.index for worker in hosted.workers if worker.index >= len(alive) or not alive[worker.index]
            ]
            if gone:
                node_fields.set_preempted(hosted.node, gone)
        return hosted

    def _require_single(self, name: str, state: int) -> HostedNode:
        hosted = self.get(name)
        if hosted.shape.workers > 1:
            raise rpc_errors.precondition("This operation is only available with single TPU nodes.")
        if hosted.node.state != state:
            present = State(hosted.node.state).name
            raise rpc_errors.precondition(f"The TPU node '{name}' is {present}; it must be {State(state).name}.")
        return hosted

    def _slice_name(self, place: ResourceLocation, node_id: str) -> str:
        return node_id if place.zone == self._first_zone else f"{node_id}@{place.zone}"

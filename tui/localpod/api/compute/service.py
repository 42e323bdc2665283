"""The local pod's Compute Engine API: the methods that tpu-tui, gcloud and Google's client use for slices.

REST paths and fields are those of the Compute Engine API v1.
"""

from __future__ import annotations

from aiohttp import web

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api.compute.batch_route import batch_route
from tui.localpod.api.compute.collection_routes import CollectionRoutes
from tui.localpod.api.compute.documents import INSTANCES, DocumentStore
from tui.localpod.api.compute.group_routes import GroupRoutes
from tui.localpod.api.compute.groups import ManagedGroups
from tui.localpod.api.compute.guard import RequestGuard
from tui.localpod.api.compute.instance_routes import InstanceRoutes
from tui.localpod.api.compute.instances import Instances, Vm
from tui.localpod.api.compute.network_routes import NetworkRoutes
from tui.localpod.api.compute.operations import ComputeOperations
from tui.localpod.api.compute.resize_requests import ResizeRequests
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.host_protocol import WorkerHosts


class ComputeService:
    """The machines, groups, disks, images and firewall rules of a pod, on the machines that `hosts` runs."""

    def __init__(
        self, hosts: WorkerHosts, *, zone: str, project: str = "local", conditions: ServiceConditions | None = None
    ) -> None:
        self._zone = zone
        self.conditions = conditions or ServiceConditions()
        self.store = DocumentStore(project)
        self._tasks = BackgroundTasks()
        self._operations = ComputeOperations(project, self.conditions, self._tasks)
        self.networks = NetworkRoutes(project, self._operations)
        self.instances = Instances(self.store, hosts, self.conditions, self._tasks, lambda: self.networks.metadata)
        self.networks.metadata_changed = self.instances.authorize_all
        self.instances.record_event = self._operations.record_event
        self.groups = ManagedGroups(self.store, self.instances, self.conditions, self._tasks)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that the pod's REST port serves."""
        guard = RequestGuard(self.store.project, self.conditions, self._operations.find_earlier)
        zones = [self._zone]
        collections = CollectionRoutes(self.store, self._operations, zones)
        instances = InstanceRoutes(self.store, self.instances, self._operations, zones)
        groups = GroupRoutes(self.store, self.groups, self._operations, zones)
        requests = ResizeRequests(self.groups, groups, self._operations, self._tasks)
        return [
            *self._operations.routes(guard),
            *self.networks.routes(guard),
            *collections.routes(guard),
            *instances.routes(guard, collections),
            *groups.routes(guard, collections),
            *requests.routes(guard),
            batch_route(),
        ]

    async def close(self) -> None:
        """Cancel operations and changes of machines that are in progress; the hosts of the machines keep running."""
        await self._tasks.close()

    def vm(self, name: str) -> Vm:
        """Return a machine of the pod's zone. Raises ComputeError."""
        return self.instances.get(self.store.path(INSTANCES, f"zones/{self._zone}", name))

"""The local pod's Cloud TPU API service: one state, served over gRPC and REST on loopback ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import google.cloud.tpu_v2.types as tpu

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api.authentication import make_token
from tui.localpod.api.compute.documents import DocumentStore
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.handlers import ApiHandlers
from tui.localpod.api.host_protocol import WorkerHosts
from tui.localpod.api.os_login_api import OsLoginService
from tui.localpod.api.resources import accelerator_types
from tui.localpod.api.resources.nodes import Nodes
from tui.localpod.api.resources.operations import Operations
from tui.localpod.api.resources.queued_resources import QueuedResources
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.localpod.api.resources.zone_offers import default_runtime
from tui.localpod.api.routes import ApiRouter
from tui.localpod.api.transport.grpc_service import GrpcService
from tui.localpod.api.transport.rest_service import RestService
from tui.pod.slice import CORES_PER_WORKER


class TpuService:
    """A Cloud TPU API on `127.0.0.1` whose nodes are the machines that `hosts` runs.

    `zone` is the pod's own; `more_zones` exist beside it. `cores` is the default number of devices per worker of a
    `local-N` node. Requests must carry `token`; the default is a new one. With a `store`, data disks must exist in
    it. `os_login` decides who may log in.
    """

    def __init__(
        self,
        hosts: WorkerHosts,
        *,
        project: str = "local",
        zone: str = "local-a",
        more_zones: Sequence[str] = (),
        cores: int = 1,
        conditions: ServiceConditions | None = None,
        rest_routes: Sequence[Any] = (),
        token: str | None = None,
        store: DocumentStore | None = None,
        os_login: OsLoginService | None = None,
    ) -> None:
        self.token = token or make_token()
        self.project = project
        self.zone = zone
        self.conditions = conditions or ServiceConditions()
        self._tasks = BackgroundTasks()
        self._operations = Operations(self.conditions, self._tasks)
        self._nodes = Nodes(hosts, self._operations, self.conditions, first_zone=zone, cores=cores)
        if store is not None:
            self._nodes.disk_exists = store.exists
            store.users.append(self._nodes.machines_with)
        if os_login is not None:
            self._nodes.os_logins = os_login.logins
            os_login.changed.append(self._nodes.authorize_all)
        queued = QueuedResources(self._nodes, self._operations, self.conditions, self._tasks)
        zones = (zone, *more_zones)
        api = ApiRouter(ApiHandlers(project, zones, self._nodes, queued, self._operations), self.conditions)
        self._grpc = GrpcService(api, self.token)
        self._rest = RestService(api, self.token, rest_routes)

    @property
    def grpc_port(self) -> int:
        """The port of gRPC; 0 before the start."""
        return self._grpc.port

    @property
    def rest_port(self) -> int:
        """The port of REST; 0 before the start."""
        return self._rest.port

    async def start(self) -> None:
        """Start listening on two free ports. After an error, call `close`."""
        await self._rest.start()
        await self._grpc.start()

    async def close(self) -> None:
        """Stop listening and cancel running operations; the machines keep running."""
        await self._grpc.close()
        await self._rest.close()
        await self._tasks.close()

    async def add_slice(self, name: str, workers: int, cores: int) -> tpu.Node:
        """Bring up one of the pod's first slices, without an operation's delay.

        The type is a real one where the shape fits one, else `local-<workers>`. Raises ApiError as CreateNode does.
        """
        kind = accelerator_types.accelerator_type_for(workers, cores)
        node = tpu.Node(
            accelerator_type=kind,
            runtime_version=default_runtime(kind),
            network_config=tpu.NetworkConfig(enable_external_ips=True),
        )
        shape = accelerator_types.shapes().get(kind)
        if shape is not None and shape.cores is None:
            node.labels[CORES_PER_WORKER] = str(cores)
        hosted = self._nodes.admit(ResourceLocation(self.project, self.zone), name, node)
        await self._nodes.bring_up(hosted)
        return tpu.Node(hosted.node)

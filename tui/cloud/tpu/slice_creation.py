"""Create slices, at once or through the queue; each step is yielded until they are ready.

A creation whose answer is lost makes no second slice: CreateNode of the API's v2 has no request ID, so a repeated
request that finds the name taken looks for the operation of the first; queued resources have a request ID.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tui.cloud.state_reports import StateReports
from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.creation_errors import explain_creation
from tui.cloud.tpu.operation_wait import OperationWait
from tui.cloud.tpu.request_messages import node_of, queued_resource_of, request_document, tpu_node_of
from tui.cloud.tpu.tpu_client import ApiConnection
from tui.cloud.tpu.zone_offers import ZoneOffers
from tui.errors import CloudError, OutOfReachError, TpuTuiError, UsageError
from tui.pod.api_paths import last_part
from tui.pod.creation.machine_request import CREATED_BY
from tui.pod.creation.queued_request import LEFTOVER_STATES
from tui.pod.creation.slice_request import CreationStep, SliceRequest
from tui.pod.slice_commands import delete_command

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.longrunning.operations_pb2 import Operation


class SliceCreation:
    """Requests slices and waits for them: TPU VMs by v2 of the API, TPU Nodes by v1."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api
        self._wait = OperationWait(api)
        self._offers = ZoneOffers(api)

    async def create(
        self, request: SliceRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        """Create what a checked request names. Without `waits`, return when the API has accepted the request.

        Raises UsageError (name taken, no such type or runtime) or CloudError (quota, capacity, permission …).
        """
        await self._api.open()
        document = request_document(request, self._api.parent(request.zone))
        if dry_run:
            await self._check(request)
            yield CreationStep(f"would request {request.summary}", request=document)
            return
        clock = asyncio.get_running_loop().time
        started_at = clock()
        try:
            started = await self._request(request)
            yield CreationStep(f"requested {request.summary}", started.name, clock() - started_at, document)
            if not waits and request.queue is None:
                return
            async for line in self._progress(started, request, waits=waits):
                yield CreationStep(line, started.name, clock() - started_at)
        except TpuTuiError as error:
            raise await self._explain(error, request) from error.__cause__

    async def _explain(self, error: TpuTuiError, request: SliceRequest) -> TpuTuiError:
        return await explain_creation(error, request, self._offers, self._api.project)

    async def _check(self, request: SliceRequest) -> None:
        """Raise UsageError for what the API would refuse and a dry run can find out."""
        await self._refuse_taken_names(request)
        if missing := await self._offers.missing(request.zone, request.type_name, request.runtime_version):
            raise UsageError(request.failure, why=missing[0], remedy=missing[1])

    async def _refuse_taken_names(self, request: SliceRequest) -> None:
        """Raise UsageError if a name is taken already, so that a later conflict can only be with this request."""
        for name in request.slice_names:
            if (state := await self._wait.state(self._api.node_path(request.zone, name))) is not None:
                remedy = f"choose another name, or delete it first: {delete_command(name, request.zone)}"
                raise UsageError(request.failure, why=f"a slice {name} exists already, and is {state}", remedy=remedy)

    async def _request(self, request: SliceRequest) -> Operation:
        """Send the request and return its operation."""
        await self._refuse_taken_names(request)
        try:
            if request.queue is not None:
                return await self._queue(request)
            return await self._create_node(request)
        except OutOfReachError as error:
            raise _perhaps_requested(error, request) from error.__cause__

    async def _create_node(self, request: SliceRequest) -> Operation:
        node: Any = tpu_node_of(request) if request.is_tpu_node else node_of(request)
        path = self._api.node_path(request.zone, request.name)

        async def lost_operation(is_lost: bool) -> Operation | None:
            """Return the operation of a request whose answer was lost; None if the node is another's."""
            existing = await self._wait.node(path) if is_lost else None
            is_created = existing is not None and _is_made_for(existing, request)
            return await self._wait.newest("create", path) if is_created else None

        fields = {"parent": self._api.parent(request.zone), "node": node, "node_id": request.name}
        return await self._wait.begin(request.failure, "create_node", fields, lost_operation)

    async def _queue(self, request: SliceRequest) -> Operation:
        parent = self._api.parent(request.zone)
        fields = {
            "parent": parent,
            "queued_resource_id": request.name,
            "queued_resource": queued_resource_of(request, parent),
            "request_id": str(uuid.uuid4()),
        }
        return await self._wait.begin(request.failure, "create_queued_resource", fields)

    async def _progress(self, started: Operation, request: SliceRequest, *, waits: bool) -> AsyncIterator[str]:
        path = self._api.node_path(request.zone, request.name) if request.queue is None else None
        async for line in self._wait.finish(started, request.failure, path):
            yield line
        if request.queue is not None:
            async for line in self._follow_queue(request, waits=waits):
                yield line
        if not waits:
            return
        for name in request.slice_names:
            state = await self._wait.state(self._api.node_path(request.zone, name))
            if state != "READY":
                raise _not_ready(name, request, state)
            yield f"{name} is READY"

    async def _follow_queue(self, request: SliceRequest, *, waits: bool) -> AsyncIterator[str]:
        """Yield each state of a queued resource until it is ACTIVE, or only the first. Raises why it ended."""
        path = f"{self._api.parent(request.zone)}/queuedResources/{request.name}"
        reports = StateReports()
        while True:
            try:
                queued = await self._wait.queued_resource(path)
            except OutOfReachError as error:
                if not waits:
                    raise
                if line := reports.report_outage("the API", error):
                    yield line
                await reports.pause()
                continue
            if queued is None:
                raise CloudError(request.failure, why="its queued resource was deleted while it waited")
            state, reason = tpu_messages.enum_name(queued.state.state), tpu_messages.queued_reason(queued)
            if not waits:
                yield f"queued resource {request.name} is {state}"
                return
            if state == "ACTIVE":
                return
            if state in LEFTOVER_STATES:
                raise await self._queue_end_error(queued, request)
            if line := reports.report(state, reason):
                yield line
            await reports.pause()

    async def _queue_end_error(self, queued: tpu_v2.QueuedResource, request: SliceRequest) -> TpuTuiError:
        """Return why a queued resource no longer waits, and what can be done with it."""
        path = f"{request.zone}/{request.name}"
        reset = f"tpu-tui slices reset {path} puts it back into the queue"
        remedy = f"{reset}, tpu-tui slices delete --queued {path} removes it"
        if "failed_data" in queued.state and queued.state.failed_data.error.code:
            failure = self._wait.failure(queued.state.failed_data.error, request.failure)
            error = await self._explain(failure, request)
            error.remedy = f"{error.remedy}; the queued resource stays: {remedy}"
            error.__cause__ = None
            return error
        state, reason = tpu_messages.enum_name(queued.state.state), tpu_messages.queued_reason(queued)
        why = f"its queued resource is {state}{f': {reason}' if reason else ''}"
        return CloudError(request.failure, why=why, remedy=remedy)


def _is_made_for(node: Any, request: SliceRequest) -> bool:
    """Return whether tpu-tui created a node for such a request: it has its label, type and runtime version."""
    if request.is_tpu_node:
        kind, version = last_part(node.accelerator_type), node.tensorflow_version
    else:
        kind, version = tpu_messages.accelerator_type_of(node) or "", node.runtime_version
    label, value = CREATED_BY
    is_alike = (kind, version) == (request.type_name, request.runtime_version)
    return is_alike and bool(node.labels.get(label) == value)


def _perhaps_requested(error: OutOfReachError, request: SliceRequest) -> TpuTuiError:
    """Return the error of an API that did not answer, with how to see whether the slice was requested."""
    from google.api_core import exceptions

    if not isinstance(error.__cause__, exceptions.ServiceUnavailable | exceptions.DeadlineExceeded):
        return error
    command = "tpu-tui slices" if request.queue is None else "tpu-tui slices queued"
    remedy = f"{error.remedy}; {command} shows whether {request.name} was requested all the same"
    return type(error)(error.what, why=error.why, remedy=remedy)


def _not_ready(name: str, request: SliceRequest, state: str | None) -> CloudError:
    """Return the error of a slice that was created and is lost already."""
    preempted = " (spot capacity can be taken back at any time)" if request.spot or request.preemptible else ""
    return CloudError(
        f"slice {name} was created in {request.zone} but is not ready",
        why=f"it is {state}{preempted}" if state else f"it is gone already{preempted}",
        remedy=f"{delete_command(name, request.zone)}, then create it again",
    )

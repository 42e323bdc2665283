"""Long-running operations of the Cloud TPU API, which clients poll."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import google.cloud.tpu_v1.types as v1
import google.cloud.tpu_v2.types as tpu
from google.longrunning import operations_pb2

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api import rpc_errors
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.localpod.api.resources.tpu_nodes import node_as_v1
from tui.localpod.api.transport.messages import now

V1, V2 = "v1", "v2"
"""The versions of the API; an operation's messages have the version of the request that started it."""
_LOG = logging.getLogger(__name__)

Work = Callable[[], Awaitable[Any]]
"""The work of an operation; returns the protobuf message that becomes its response."""


@dataclass
class _Entry:
    operation: Any
    metadata: tpu.OperationMetadata

    def pack_metadata(self) -> None:
        """Write the metadata into the operation; the fields of v1 are those of v2."""
        message = tpu.OperationMetadata.pb(self.metadata)
        if self.metadata.api_version == V1:
            message = v1.OperationMetadata.pb(v1.OperationMetadata.deserialize(message.SerializeToString()))
        self.operation.metadata.Pack(message)

    def pack_response(self, response: Any) -> None:
        """Write the result into the operation."""
        if self.metadata.api_version == V1 and isinstance(response, tpu.Node.pb()):
            response = v1.Node.pb(node_as_v1(tpu.Node(response)))
        self.operation.response.Pack(response)


class Operations:
    """Every operation since the service started."""

    def __init__(self, conditions: ServiceConditions, tasks: BackgroundTasks) -> None:
        self._conditions = conditions
        self._tasks = tasks
        self._entries: dict[str, _Entry] = {}
        self._by_request: dict[str, str] = {}

    def start(self, place: ResourceLocation, verb: str, target: str, work: Work) -> Any:
        """Start an operation: `work` runs after a delay; the operation gets its result or ApiError."""
        metadata = tpu.OperationMetadata(create_time=now(), target=target, verb=verb, api_version=V2)
        entry = _Entry(operations_pb2.Operation(name=place.child("operations", _operation_id())), metadata)
        entry.pack_metadata()
        self._entries[entry.operation.name] = entry
        self._tasks.start(self._run(entry, work))
        return _copy(entry.operation)

    def in_v1(self, operation: Any) -> Any:
        """Convert an operation that was just started to v1, and return it."""
        entry = self._entry(operation.name)
        entry.metadata.api_version = V1
        entry.pack_metadata()
        return _copy(entry.operation)

    def once(self, request_id: str, begin: Callable[[], Any]) -> Any:
        """Return the operation that `begin` starts, or that an earlier request with the same ID started (AIP-155)."""
        if request_id in self._by_request:
            return self.get(self._by_request[request_id])
        operation = begin()
        self._by_request[request_id] = operation.name
        return operation

    def get(self, name: str) -> Any:
        """Return the operation as it is now. Raises NOT_FOUND."""
        return _copy(self._entry(name).operation)

    def in_place(self, place: ResourceLocation) -> list[Any]:
        """Return the place's operations as they are now."""
        prefix = place.child("operations", "")
        return [_copy(entry.operation) for name, entry in self._entries.items() if name.startswith(prefix)]

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise rpc_errors.not_found(name)
        return self._entries[name]

    async def _run(self, entry: _Entry, work: Work) -> None:
        await self._conditions.operation_delay()
        try:
            response = await work()
            entry.pack_response(response)
        except rpc_errors.ApiError as error:
            entry.operation.error.CopyFrom(error.to_status())
        except Exception as error:
            _LOG.exception("%s of %s failed", entry.metadata.verb, entry.metadata.target)
            failure = rpc_errors.ApiError("INTERNAL", f"Internal error: {error}")
            entry.operation.error.CopyFrom(failure.to_status())
        entry.metadata.end_time = now()
        entry.pack_metadata()
        entry.operation.done = True


def _operation_id() -> str:
    """Return an ID in Google's form: `operation-<milliseconds>-<13 hex>-<8 hex>-<8 hex>`."""
    random = secrets.token_hex(15)
    return f"operation-{time.time_ns() // 1_000_000}-{random[:13]}-{random[13:21]}-{random[21:29]}"


def _copy(operation: Any) -> Any:
    snapshot = operations_pb2.Operation()
    snapshot.CopyFrom(operation)
    return snapshot

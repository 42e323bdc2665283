"""Long-running operations: started, looked at, and done after a while."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import google.cloud.tpu_v2.types as tpu
from google.longrunning import operations_pb2

from tui.localpod.api import rpc_errors
from tui.localpod.api.faults import ServiceFaults
from tui.localpod.api.resources.paging import page
from tui.localpod.api.resources.resource_names import ResourceLocation
from tui.localpod.api.transport.messages import now

API_VERSION = "v2"
_LOG = logging.getLogger(__name__)

Work = Callable[[], Awaitable[Any]]
"""What an operation does; returns the protobuf message that becomes its response."""


@dataclass
class _Entry:
    operation: Any
    metadata: tpu.OperationMetadata
    task: asyncio.Task[None] | None = None


class Operations:
    """Every operation since the service started."""

    def __init__(self, behaviour: ServiceFaults) -> None:
        self._behaviour = behaviour
        self._entries: dict[str, _Entry] = {}
        self._background: set[asyncio.Task[None]] = set()

    def start(self, place: ResourceLocation, verb: str, target: str, work: Work) -> Any:
        """Begin: `work` runs after the operation's time and its result, or ApiError, becomes the operation's."""
        metadata = tpu.OperationMetadata(create_time=now(), target=target, verb=verb, api_version=API_VERSION)
        entry = _Entry(operations_pb2.Operation(name=place.child("operations", _operation_id())), metadata)
        entry.operation.metadata.Pack(tpu.OperationMetadata.pb(metadata))
        self._entries[entry.operation.name] = entry
        entry.task = self.background(self._run(entry, work))
        return _copy(entry.operation)

    def background(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine that has no operation until it ends or the service closes."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def get(self, name: str) -> Any:
        """The operation as it is now; raises NOT_FOUND."""
        return _copy(self._entry(name).operation)

    async def wait(self, name: str, seconds: float | None) -> Any:
        """The operation once it is done, or as it is after that many seconds."""
        task = self._entry(name).task
        if task is not None:
            await asyncio.wait([task], timeout=seconds)
        return self.get(name)

    def page(self, place: ResourceLocation, page_size: int, page_token: str) -> tuple[list[Any], str]:
        """One page of the place's operations, and the next page's token."""
        prefix = place.child("operations", "")
        mine = [entry.operation for name, entry in self._entries.items() if name.startswith(prefix)]
        found, token = page(mine, page_size, page_token, lambda operation: str(operation.name))
        return [_copy(operation) for operation in found], token

    def cancel(self, name: str) -> None:
        """Ask for cancellation. As on the real service that is a wish: what has begun is completed."""
        entry = self._entry(name)
        if not entry.operation.done:
            entry.metadata.cancel_requested = True
            entry.operation.metadata.Pack(tpu.OperationMetadata.pb(entry.metadata))

    def delete(self, name: str) -> None:
        """Forget a result; the work itself is not cancelled."""
        self._entry(name)
        del self._entries[name]

    async def close(self) -> None:
        """Cancel what still runs and wait until it has stopped."""
        tasks = tuple(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise rpc_errors.not_found(name)
        return self._entries[name]

    async def _run(self, entry: _Entry, work: Work) -> None:
        await self._behaviour.operation_delay()
        try:
            response = await work()
            entry.operation.response.Pack(response)
        except rpc_errors.ApiError as error:
            entry.operation.error.CopyFrom(error.to_status())
        except Exception as error:
            _LOG.exception("%s of %s failed", entry.metadata.verb, entry.metadata.target)
            failure = rpc_errors.ApiError("INTERNAL", f"Internal error: {error}")
            entry.operation.error.CopyFrom(failure.to_status())
        entry.metadata.end_time = now()
        entry.operation.metadata.Pack(tpu.OperationMetadata.pb(entry.metadata))
        entry.operation.done = True


def _operation_id() -> str:
    """The shape of Google's ids: `operation-<milliseconds>-<13 hex>-<8 hex>-<8 hex>`."""
    random = secrets.token_hex(15)
    return f"operation-{time.time_ns() // 1_000_000}-{random[:13]}-{random[13:21]}-{random[21:29]}"


def _copy(operation: Any) -> Any:
    snapshot = operations_pb2.Operation()
    snapshot.CopyFrom(operation)
    return snapshot

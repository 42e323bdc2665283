"""Wait for long-running operations and queued resources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tui.cloud.api_errors import ApiRequest, explain, is_missing
from tui.cloud.state_reports import StateReports
from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.tpu_client import ApiConnection, Recovery
from tui.errors import TpuTuiError, UsageError
from tui.pod.api_paths import last_part

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.longrunning.operations_pb2 import Operation


class OperationWait:
    """Reads operations, nodes and queued resources until an operation is done."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api

    async def finish(self, operation: Operation, what: str, path: str | None) -> AsyncIterator[str]:
        """Poll until the operation is done and yield each new state of the node at `path`.

        Raises the operation's error, with the API's own as its cause.
        """
        reports = StateReports()
        while not operation.done:
            await reports.pause()
            operation = await self._api.ask(what, "get_operation", {"name": operation.name})
            if path and not operation.done and (line := reports.report(await self.state(path))):
                yield line
        if operation.HasField("error"):
            raise self.failure(operation.error, what)

    async def begin(self, what: str, method: str, request: Any, recover: Recovery | None = None) -> Operation:
        """Send a request and return its operation; `recover` finds the operation of a request without an answer."""
        operation: Operation = await self._api.ask(what, method, request, recover)
        return operation

    async def newest(self, verb: str, target: str) -> Operation | None:
        """Return the newest operation with this verb ("create") on the resource `target`; None if there is none."""
        pages = await self._api.pages(
            f"operations on {last_part(target)} cannot be listed",
            "list_operations",
            {"name": "/".join(target.split("/")[:4])},
        )
        dated: list[tuple[float, Operation]] = []
        for operation in (item for page in pages for item in page.operations):
            metadata = self._api.types.OperationMetadata()
            operation.metadata.Unpack(type(metadata).pb(metadata))
            if (metadata.target, metadata.verb) == (target, verb):
                created: Any = metadata.create_time
                dated.append((created.timestamp(), operation))
        return max(dated, key=lambda pair: pair[0])[1] if dated else None

    def failure(self, status: Any, what: str) -> TpuTuiError:
        """Return the error of a google.rpc.Status, explained like the error of a call and caused by that."""
        from google.api_core.exceptions import from_grpc_status

        cause = from_grpc_status(status.code, status.message)  # type: ignore[no-untyped-call]
        error = explain(cause, ApiRequest(what, self._api.project))
        error.__cause__ = cause
        return error

    async def state(self, path: str) -> str | None:
        """Return the state of a node; None if it does not exist."""
        node = await self.node(path)
        return None if node is None else tpu_messages.enum_name(node.state)

    async def node(self, path: str) -> tpu_v2.Node | None:
        """Return a node; None if it does not exist."""
        node: tpu_v2.Node | None = await self._find(f"slice {last_part(path)} cannot be read", "get_node", path)
        return node

    async def queued_resource(self, path: str) -> tpu_v2.QueuedResource | None:
        """Return a queued resource; None if it does not exist."""
        what = f"queued resource {last_part(path)} cannot be read"
        queued: tpu_v2.QueuedResource | None = await self._find(what, "get_queued_resource", path)
        return queued

    async def _find(self, what: str, method: str, path: str) -> Any:
        try:
            return await self._api.ask(what, method, {"name": path})
        except UsageError as error:
            if is_missing(error):
                return None
            raise

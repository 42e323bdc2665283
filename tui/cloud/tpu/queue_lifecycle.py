"""Queued resources: reset and delete them, and wait until they and their slices are gone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tui.cloud.api_errors import is_missing
from tui.cloud.retries import GONE_TIMEOUT_S
from tui.cloud.state_reports import StateReports
from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.operation_wait import OperationWait
from tui.cloud.tpu.tpu_client import TpuConnection
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError
from tui.pod.api_paths import last_part

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.longrunning.operations_pb2 import Operation

_RESETTABLE = ("ACTIVE", "SUSPENDED", "FAILED")
"""The states from which a queued resource can be reset; a reset leaves them at once."""


class QueueLifecycle:
    """Deletes and resets the queued resources of a project."""

    def __init__(self, api: TpuConnection) -> None:
        self._api = api
        self._wait = OperationWait(api)

    async def delete(self, zone: str, name: str, *, force: bool = False, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete a request, with `force` its slices first; yield the progress until all of them are gone.

        Raises UsageError for a request that does not exist, or that has slices and no `force`.
        """
        what = f"queued resource {name} cannot be deleted"
        path = await self._path(zone, name)
        queued = await self._require_queued(path, what)
        nodes = await self._existing(queued)
        if nodes and not force:
            remedy = "add --force to delete them, too"
            raise UsageError(what, why=f"it has slices: {', '.join(nodes)}", remedy=remedy)
        if dry_run:
            also = f", and {', '.join(nodes)} with the disks of their workers" if nodes else ""
            yield f"would delete queued resource {name} in {zone}, now {_state(queued)}{also}"
            return
        async for line in delete_queued(self._api, path, f"queued resource {name}", force=force):
            yield line

    async def reset(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Put a request back into the queue: its slices are deleted and created again; yield the progress."""
        what = f"queued resource {name} cannot be reset"
        path = await self._path(zone, name)
        queued = await self._require_queued(path, what)
        if dry_run:
            nodes = ", ".join(tpu_messages.queued_node_ids(queued))
            yield f"would reset queued resource {name} in {zone}, now {_state(queued)}: {nodes} would be recreated"
            return

        async def lost_operation(is_lost: bool) -> Operation | None:
            now = await self._wait.queued_resource(path) if is_lost else None
            is_begun = now is not None and tpu_messages.enum_name(now.state.state) not in _RESETTABLE
            return await self._wait.newest("reset", path) if is_begun else None

        operation = await self._wait.begin(what, "reset_queued_resource", {"name": path}, lost_operation)
        yield f"requested the reset of queued resource {name}"
        async for line in self._wait.finish(operation, what, None):
            yield line
        now = await self._wait.queued_resource(path)
        yield f"queued resource {name} is {_state(now) if now is not None else 'gone'}"

    async def _path(self, zone: str, name: str) -> str:
        await self._api.open()
        return f"{self._api.parent(zone)}/queuedResources/{name}"

    async def _require_queued(self, path: str, what: str) -> tpu_v2.QueuedResource:
        queued = await self._wait.queued_resource(path)
        if queued is None:
            why, remedy = "there is no such queued resource", "tpu-tui slices queued lists them"
            raise NoSuchResourceError(what, why=why, remedy=remedy)
        return queued

    async def _existing(self, queued: tpu_v2.QueuedResource) -> list[str]:
        """Return the names of its slices that exist."""
        return [name for name, path in _node_paths(queued) if await self._wait.node(path) is not None]


async def delete_queued(api: TpuConnection, path: str, described: str, *, force: bool) -> AsyncIterator[str]:
    """Delete a queued resource and wait until it and its slices are gone; a repeated request deletes nothing else."""
    wait, what = OperationWait(api), f"{described} cannot be deleted"
    queued = await wait.queued_resource(path)
    request = {"name": path, "force": force, "request_id": str(uuid.uuid4())}
    try:
        operation = await wait.begin(what, "delete_queued_resource", request)
    except TpuTuiError as error:
        if queued is None or not is_missing(error):
            raise
    else:
        yield f"requested the deletion of {described}"
        async for line in wait.finish(operation, what, None):
            yield line
    nodes = _node_paths(queued) if queued is not None and force else []
    async for line in _wait_until_gone(wait, path, nodes, what):
        yield line
    yield f"{described} is deleted"


async def _wait_until_gone(
    wait: OperationWait, path: str, nodes: list[tuple[str, str]], what: str
) -> AsyncIterator[str]:
    """Poll until neither the request nor its slices exist. Raises CloudError after `GONE_TIMEOUT_S`."""
    clock, reports = asyncio.get_running_loop().time, StateReports()
    started_at = clock()
    while True:
        queued = await wait.queued_resource(path)
        remaining = [name for name, node_path in nodes if _belongs(await wait.node(node_path), path)]
        if queued is None and not remaining:
            return
        still = [f"the request is {_state(queued)}"] if queued is not None else []
        line = ", ".join([*still, *(f"{name} still exists" for name in remaining)])
        if clock() - started_at > GONE_TIMEOUT_S:
            raise CloudError(what, why=line, remedy="tpu-tui slices queued shows its state; try again later")
        if report := reports.report(line):
            yield report
        await reports.pause()


def _belongs(node: tpu_v2.Node | None, path: str) -> bool:
    return node is not None and last_part(node.queued_resource) == last_part(path)


def _node_paths(queued: tpu_v2.QueuedResource) -> list[tuple[str, str]]:
    parent = queued.name.rpartition("/queuedResources/")[0]
    return [(name, f"{parent}/nodes/{name}") for name in tpu_messages.queued_node_ids(queued)]


def _state(queued: tpu_v2.QueuedResource) -> str:
    return tpu_messages.enum_name(queued.state.state) or "in an unknown state"

"""Create, delete, start and stop slices; each yields its progress until the operation is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tui.cloud.api_errors import ApiRequest, explain
from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.tpu_client import TpuConnection, request_options
from tui.errors import TpuTuiError, UsageError, near_matches
from tui.pod.slice_commands import CANNOT_STOP, can_stop, delete_command, make_anew

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.cloud.tpu_v2 import TpuAsyncClient
    from google.longrunning.operations_pb2 import Operation

Answer = TypeVar("Answer")

_FIRST_POLL_S = 0.25
_LONGEST_POLL_S = 5.0
_POLL_GROWTH = 1.5
_REPEAT_S = 15.0
"""A state that lasts is reported again after this time, with its age."""
_BUSY_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses while another operation on the same node is in progress."""


class Lifecycle:
    """Requests a change and waits for its long-running operation."""

    def __init__(self, api: TpuConnection) -> None:
        self._api = api

    async def create(self, zone: str, name: str, node: tpu_v2.Node, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Create a slice. Raises UsageError (name taken, no such type or runtime) or CloudError (quota, capacity)."""
        path = await self._path(zone, name)
        parent = path.rpartition("/nodes/")[0]
        what = f"slice {name} cannot be created in {zone}"
        spot = ", spot" if node.scheduling_config.spot else ""
        if dry_run:
            await self._check_creation(what, path, node)
            yield f"would request {name}: {node.accelerator_type} with {node.runtime_version} in {zone}{spot}"
            return
        try:
            started = await self._api.ask(
                what,
                lambda client, timeout: client.create_node(
                    parent=parent, node=node, node_id=name, **request_options(timeout)
                ),
            )
        except UsageError as error:
            raise await self._with_near_types(error, parent, node) from error.__cause__
        yield f"requested {name}: {node.accelerator_type} with {node.runtime_version} in {zone}{spot}"
        async for progress in self._wait(started.operation, what, path):
            yield progress
        yield f"{name} is {await self._state(path) or 'created'}"

    async def delete(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete a slice, and its queued resource with the last node of that; yield what is done and what stays.

        Raises UsageError if there is nothing to delete, CloudError if the API refuses.
        """
        path = await self._path(zone, name)
        what = f"slice {name} cannot be deleted"
        node = await self._node(path)
        queued = await self._queued_for(node, path, name)
        if node is None and queued is None:
            raise UsageError(what, why=f"there is no slice {name} in {zone}", remedy="tpu-tui slices lists them")
        others = await self._other_nodes(queued, path) if queued is not None else []
        if node is None and queued is not None and others:
            raise _held_by_others(what, queued, others)
        if dry_run:
            if node is not None:
                state = tpu_messages.enum_name(node.state)
                yield f"would delete {name} in {zone}, now {state}, and its workers' disks"
            if queued is not None:
                yield _stays(queued, others) if others else f"would delete {_described(queued, name)}"
            return
        if node is not None:
            started = await self._api.ask(
                what, lambda client, timeout: client.delete_node(name=path, **request_options(timeout))
            )
            yield f"requested the deletion of {name}"
            async for progress in self._wait(started.operation, what, path):
                yield progress
            yield f"{name} is deleted"
        if queued is not None and others:
            yield _stays(queued, others)
        elif queued is not None:
            async for progress in self._delete_queued(queued, name):
                yield progress

    def start(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Start a stopped slice."""
        return self._turn(zone, name, "start", "started", dry_run=dry_run)

    def stop(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Stop a slice."""
        return self._turn(zone, name, "stop", "stopped", dry_run=dry_run)

    async def _turn(self, zone: str, name: str, verb: str, done: str, *, dry_run: bool) -> AsyncIterator[str]:
        path = await self._path(zone, name)
        what = f"slice {name} cannot be {done}"
        slice_ = tpu_messages.slice_of_node(await self._required(path, what))
        if not can_stop(slice_):
            why = f"{CANNOT_STOP}, and it has {len(slice_.workers)}"
            raise UsageError(what, why=why, remedy=make_anew(slice_))
        if dry_run:
            yield f"would {verb} {name} in {zone}, now {slice_.state or 'in an unknown state'}"
            return

        def ask(client: TpuAsyncClient, timeout: float) -> Awaitable[Any]:
            call = client.start_node if verb == "start" else client.stop_node
            return call({"name": path}, **request_options(timeout))

        started = await self._api.ask(what, ask)
        yield f"requested the {verb} of {name}"
        async for progress in self._wait(started.operation, what, path):
            yield progress
        yield f"{name} is {await self._state(path) or done}"

    async def metadata(self, zone: str, name: str) -> dict[str, str]:
        """Return a slice's present metadata. Raises UsageError when there is no such slice."""
        path = await self._path(zone, name)
        node = await self._node(path)
        if node is None:
            raise UsageError(
                f"metadata of {name} cannot be read",
                why="it has no node yet",
                remedy="tpu-tui slices shows its state",
            )
        return dict(node.metadata)

    async def set_metadata(
        self, zone: str, name: str, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> AsyncIterator[str]:
        """Change a slice's metadata: `change` gets the present metadata and returns all of the new.

        The API replaces the whole map, and accepts one update of a node at a time: an update that has to wait is
        tried again on the result of the other.
        """
        from google.api_core.exceptions import Aborted
        from google.cloud import tpu_v2
        from google.protobuf.field_mask_pb2 import FieldMask

        path = await self._path(zone, name)
        what = f"metadata of {name} cannot be changed"
        for pause in (*_BUSY_PAUSES_S, None):
            node = tpu_v2.Node(name=path, metadata=change(await self.metadata(zone, name)))
            request = tpu_v2.UpdateNodeRequest(node=node, update_mask=FieldMask(paths=["metadata"]))
            try:
                started = await self._api.ask(what, _updating(request))
                break
            except TpuTuiError as error:
                if pause is None or not isinstance(error.__cause__, Aborted):
                    raise
            yield f"{name} is busy with another operation"
            await asyncio.sleep(pause)
        async for progress in self._wait(started.operation, what, None):
            yield progress

    async def _path(self, zone: str, name: str) -> str:
        await self._api.open()
        return f"projects/{self._api.project}/locations/{zone}/nodes/{name}"

    async def _delete_queued(self, queued: tpu_v2.QueuedResource, name: str) -> AsyncIterator[str]:
        from google.cloud import tpu_v2

        request = tpu_v2.DeleteQueuedResourceRequest(name=queued.name, force=True)
        what = f"queued resource {_short(queued)} cannot be deleted"
        started = await self._api.ask(
            what, lambda client, timeout: client.delete_queued_resource(request, **request_options(timeout))
        )
        async for progress in self._wait(started.operation, what, None):
            yield progress
        yield f"{_described(queued, name)} is deleted"

    async def _other_nodes(self, queued: tpu_v2.QueuedResource, path: str) -> list[str]:
        """Return the names of the other nodes of a queued resource that exist, without the one at `path`."""
        parent = path.rpartition("/nodes/")[0]
        pager = await self._api.ask(
            f"nodes of queued resource {_short(queued)} cannot be read",
            lambda client, timeout: client.list_nodes(parent=parent, **request_options(timeout)),
        )
        short, name = _short(queued), path.rpartition("/")[2]
        found = [node async for node in pager if node.queued_resource.rpartition("/")[2] == short]
        return sorted({node.name.rpartition("/")[2] for node in found} - {name})

    async def _wait(self, operation: Operation, what: str, path: str | None) -> AsyncIterator[str]:
        """Poll until the operation is done and yield each new state of the slice. Raises the operation's error."""
        clock = asyncio.get_running_loop().time
        began = reported_at = clock()
        pause, last = _FIRST_POLL_S, None
        while not operation.done:
            await asyncio.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LONGEST_POLL_S)
            operation = await self._operation(operation.name, what)
            state = await self._state(path) if path and not operation.done else last
            if state and (state != last or clock() - reported_at >= _REPEAT_S):
                last, reported_at = state, clock()
                yield f"{state}, {clock() - began:.0f} s"
        if operation.HasField("error"):
            raise self._failed(operation.error, what)

    async def _operation(self, name: str, what: str) -> Operation:
        return await self._api.ask(
            what, lambda client, timeout: client.get_operation({"name": name}, **request_options(timeout))
        )

    def _failed(self, status: Any, what: str) -> TpuTuiError:
        """Return the error of an operation, explained like the error of a call."""
        from google.api_core.exceptions import from_grpc_status

        error = from_grpc_status(status.code, status.message)  # type: ignore[no-untyped-call]
        return explain(error, ApiRequest(what, self._api.project))

    async def _state(self, path: str) -> str | None:
        node = await self._node(path)
        return None if node is None else tpu_messages.enum_name(node.state)

    async def _required(self, path: str, what: str) -> tpu_v2.Node:
        """Return the node of a slice. Raises UsageError if there is none."""
        node = await self._node(path)
        if node is None:
            raise UsageError(what, why="there is no such slice", remedy="tpu-tui slices lists them")
        return node

    async def _node(self, path: str) -> tpu_v2.Node | None:
        return await self._unless_missing(
            f"slice {path.rpartition('/')[2]} cannot be read",
            lambda client, timeout: client.get_node(name=path, **request_options(timeout)),
        )

    async def _queued_for(self, node: tpu_v2.Node | None, path: str, name: str) -> tpu_v2.QueuedResource | None:
        """Return the queued resource of a slice: the one that created its node, or that will create it."""
        parent = path.rpartition("/nodes/")[0]
        what = f"queued resources of {name} cannot be read"
        if node is not None:
            short = node.queued_resource.rpartition("/")[2]
            return await self._queued(f"{parent}/queuedResources/{short}", what) if short else None
        pager = await self._api.ask(
            what, lambda client, timeout: client.list_queued_resources(parent=parent, **request_options(timeout))
        )
        async for queued in pager:
            if any(row.name == name for row in tpu_messages.slices_of_queued(queued)):
                return queued
        return None

    async def _queued(self, path: str, what: str) -> tpu_v2.QueuedResource | None:
        return await self._unless_missing(
            what, lambda client, timeout: client.get_queued_resource(name=path, **request_options(timeout))
        )

    async def _unless_missing(
        self, what: str, call: Callable[[TpuAsyncClient, float], Awaitable[Answer]]
    ) -> Answer | None:
        from google.api_core.exceptions import NotFound

        try:
            return await self._api.ask(what, call)
        except UsageError as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    async def _with_near_types(self, error: UsageError, parent: str, node: tpu_v2.Node) -> UsageError:
        """Return the error with near matches if the zone does not have the type or the runtime."""
        from google.api_core.exceptions import InvalidArgument, NotFound

        if not isinstance(error.__cause__, (InvalidArgument, NotFound)):
            return error
        for _, wanted, known in await self._missing(error.what, parent, node):
            if near := near_matches(wanted, known):
                return UsageError(error.what, why=error.why, remedy=f"did you mean {' or '.join(near)}?")
        return error

    async def _check_creation(self, what: str, path: str, node: tpu_v2.Node) -> None:
        """Raise UsageError for what the API would refuse, as far as a dry run can know."""
        if await self._node(path) is not None:
            raise UsageError(what, why="a slice of that name exists already")
        parent = path.rpartition("/nodes/")[0]
        for kind, wanted, known in await self._missing(what, parent, node):
            near = near_matches(wanted, known)
            raise UsageError(
                what,
                why=f"there is no {kind} {wanted} in {parent.rpartition('/')[2]}",
                remedy=f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}",
            )

    async def _missing(self, what: str, parent: str, node: tpu_v2.Node) -> list[tuple[str, str, list[str]]]:
        """Return the type and runtime that the zone does not have: kind, name and all it has; empty if unknown."""
        try:
            types = await self._api.ask(
                what, lambda client, timeout: client.list_accelerator_types(parent=parent, timeout=timeout)
            )
            versions = await self._api.ask(
                what, lambda client, timeout: client.list_runtime_versions(parent=parent, timeout=timeout)
            )
            wanted = (
                ("accelerator type", node.accelerator_type, [item.type_ async for item in types]),
                ("runtime version", node.runtime_version, [item.version async for item in versions]),
            )
        except TpuTuiError:
            return []
        return [(kind, name, known) for kind, name, known in wanted if known and name not in known]


def _short(queued: tpu_v2.QueuedResource) -> str:
    return str(queued.name).rpartition("/")[2]


def _described(queued: tpu_v2.QueuedResource, name: str) -> str:
    """Describe a queued resource, with its slices beside `name` that do not exist."""
    others = sorted({row.name for row in tpu_messages.slices_of_queued(queued)} - {name})
    also = f", which also requests {', '.join(others)}," if others else ""
    return f"queued resource {_short(queued)}{also}"


def _belong(others: Sequence[str]) -> str:
    return f"{', '.join(others)} {'belongs' if len(others) == 1 else 'belong'} to it too"


def _stays(queued: tpu_v2.QueuedResource, others: Sequence[str]) -> str:
    return f"queued resource {_short(queued)} stays: {_belong(others)}"


def _held_by_others(what: str, queued: tpu_v2.QueuedResource, others: Sequence[str]) -> UsageError:
    why = f"it has no node, and queued resource {_short(queued)} stays while {_belong(others)}"
    deletes = " && ".join(delete_command(one, tpu_messages.split_name(queued.name)[1]) for one in others)
    return UsageError(what, why=why, remedy=f"the queued resource goes with its last slice: {deletes}")


def _updating(request: tpu_v2.UpdateNodeRequest) -> Callable[[TpuAsyncClient, float], Awaitable[Any]]:
    return lambda client, timeout: client.update_node(request, **request_options(timeout))

"""The life of a slice: create, delete, start, stop, each told as it goes until the API says that it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.tpu_client import TpuConnection, request_options
from tui.errors import TpuTuiError, UsageError, near_matches
from tui.pod.slice_commands import CANNOT_STOP, can_stop, delete_command, make_anew

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.cloud.tpu_v2 import TpuAsyncClient
    from google.longrunning.operations_pb2 import Operation

Answer = TypeVar("Answer")

_FIRST_POLL_SECONDS = 0.25
_LONGEST_POLL_SECONDS = 5.0
_POLL_GROWTH = 1.5
_TELL_AGAIN_SECONDS = 15.0
"""A state that lasts is told again with its age."""
_BUSY_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds to wait for another operation on the same node."""


class Lifecycle:
    """Asks for a change and waits on its long-running operation."""

    def __init__(self, api: TpuConnection) -> None:
        self._api = api

    async def create(self, zone: str, name: str, node: tpu_v2.Node, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Make a slice. Raises UsageError (name taken, no such type or runtime) or CloudError (quota, capacity)."""
        path = await self._path(zone, name)
        parent = path.rpartition("/nodes/")[0]
        what = f"slice {name} cannot be created in {zone}"
        spot = ", spot" if node.scheduling_config.spot else ""
        if dry_run:
            await self._refuse_what_is_not_there(what, path, node)
            yield f"would ask for {name}: {node.accelerator_type} with {node.runtime_version} in {zone}{spot}"
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
        yield f"asked for {name}: {node.accelerator_type} with {node.runtime_version} in {zone}{spot}"
        async for told in self._wait(started.operation, what, path):
            yield told
        yield f"{name} is {await self._state(path) or 'made'}"

    async def delete(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete a slice, and its queued resource with the last node of it; yield what is done and what stays.

        Raises UsageError where there is nothing to delete, CloudError where the API refuses.
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
            yield f"asked to delete {name}"
            async for told in self._wait(started.operation, what, path):
                yield told
            yield f"{name} is deleted"
        if queued is not None and others:
            yield _stays(queued, others)
        elif queued is not None:
            async for told in self._delete_queued(queued, name):
                yield told

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
        yield f"asked to {verb} {name}"
        async for told in self._wait(started.operation, what, path):
            yield told
        yield f"{name} is {await self._state(path) or done}"

    async def metadata(self, zone: str, name: str) -> dict[str, str]:
        """A slice's metadata as it is now. Raises UsageError when there is no such slice."""
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
        """Change a slice's metadata: `change` is given what is there when it is written, and gives all of it back.

        The API replaces the whole map, and takes one update of a node at a time: one that has to wait is tried again
        on what the other left behind.
        """
        from google.api_core.exceptions import Aborted
        from google.cloud import tpu_v2
        from google.protobuf.field_mask_pb2 import FieldMask

        path = await self._path(zone, name)
        what = f"metadata of {name} cannot be changed"
        for pause in (*_BUSY_PAUSES, None):
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
        async for told in self._wait(started.operation, what, None):
            yield told

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
        async for told in self._wait(started.operation, what, None):
            yield told
        yield f"{_described(queued, name)} is deleted"

    async def _other_nodes(self, queued: tpu_v2.QueuedResource, path: str) -> list[str]:
        """Return the nodes of a queued resource that exist beside the one at `path`, by name."""
        parent = path.rpartition("/nodes/")[0]
        pager = await self._api.ask(
            f"nodes of queued resource {_short(queued)} cannot be read",
            lambda client, timeout: client.list_nodes(parent=parent, **request_options(timeout)),
        )
        short, name = _short(queued), path.rpartition("/")[2]
        found = [node async for node in pager if node.queued_resource.rpartition("/")[2] == short]
        return sorted({node.name.rpartition("/")[2] for node in found} - {name})

    async def _wait(self, operation: Operation, what: str, path: str | None) -> AsyncIterator[str]:
        """Poll until the operation is done, telling each new state of the slice; raises what it failed with."""
        clock = asyncio.get_running_loop().time
        began = told_at = clock()
        pause, last = _FIRST_POLL_SECONDS, None
        while not operation.done:
            await asyncio.sleep(pause)
            pause = min(pause * _POLL_GROWTH, _LONGEST_POLL_SECONDS)
            operation = await self._operation(operation.name, what)
            state = await self._state(path) if path and not operation.done else last
            if state and (state != last or clock() - told_at >= _TELL_AGAIN_SECONDS):
                last, told_at = state, clock()
                yield f"{state}, {clock() - began:.0f} s"
        if operation.HasField("error"):
            raise self._failed(operation.error, what)

    async def _operation(self, name: str, what: str) -> Operation:
        return await self._api.ask(
            what, lambda client, timeout: client.get_operation({"name": name}, **request_options(timeout))
        )

    def _failed(self, status: Any, what: str) -> TpuTuiError:
        """The error that an operation ended with, explained as one of a call would be."""
        from google.api_core.exceptions import from_grpc_status

        from tui.cloud import api_errors

        error = from_grpc_status(status.code, status.message)  # type: ignore[no-untyped-call]
        return api_errors.explain(error, api_errors.ApiRequest(what, self._api.project))

    async def _state(self, path: str) -> str | None:
        node = await self._node(path)
        return None if node is None else tpu_messages.enum_name(node.state)

    async def _required(self, path: str, what: str) -> tpu_v2.Node:
        """The node of a slice that must be there; raises UsageError when it is not."""
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
        """The queued resource that a slice came from; for one without a node, the one still to make it."""
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
        """The refusal, with the near matches where the type or the runtime is not one the zone has."""
        from google.api_core.exceptions import InvalidArgument, NotFound

        if not isinstance(error.__cause__, (InvalidArgument, NotFound)):
            return error
        for _, wanted, known in await self._missing(error.what, parent, node):
            if near := near_matches(wanted, known):
                return UsageError(error.what, why=error.why, remedy=f"did you mean {' or '.join(near)}?")
        return error

    async def _refuse_what_is_not_there(self, what: str, path: str, node: tpu_v2.Node) -> None:
        """Raise UsageError for what a dry run can know that the API would refuse."""
        if await self._node(path) is not None:
            raise UsageError(what, why="there is one of that name already")
        parent = path.rpartition("/nodes/")[0]
        for kind, wanted, known in await self._missing(what, parent, node):
            near = near_matches(wanted, known)
            raise UsageError(
                what,
                why=f"there is no {kind} {wanted} in {parent.rpartition('/')[2]}",
                remedy=f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}",
            )

    async def _missing(self, what: str, parent: str, node: tpu_v2.Node) -> list[tuple[str, str, list[str]]]:
        """Type and runtime that the zone does not have: kind, name, all there are; none where it does not tell."""
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
    """Name a queued resource, with the slices beside `name` that it asks for and that do not exist."""
    others = sorted({row.name for row in tpu_messages.slices_of_queued(queued)} - {name})
    also = f", which asks for {', '.join(others)} too," if others else ""
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

"""Delete, start and stop slices; each yields its progress until the operation is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.operation_wait import OperationWait
from tui.cloud.tpu.queue_lifecycle import delete_queued
from tui.cloud.tpu.tpu_client import ApiConnection, TpuConnection, TpuNodeConnection
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError
from tui.pod.api_paths import last_part
from tui.pod.slice_commands import CANNOT_STOP, can_stop, create_again, delete_command, make_anew

if TYPE_CHECKING:
    from google.cloud import tpu_v2
    from google.longrunning.operations_pb2 import Operation

_BEGUN = {"start": ("STARTING", "READY"), "stop": ("STOPPING", "STOPPED")}
"""The states of a node in which a start or a stop has been carried out, or is being carried out."""
_LOST = ("PREEMPTED", "TERMINATED", "DELETING")
_BUSY_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses while another operation on the same node is in progress."""


class SliceLifecycle:
    """Requests a change and waits for its long-running operation; a TPU Node is changed by v1 of the API."""

    def __init__(self, api: TpuConnection, node_api: TpuNodeConnection) -> None:
        self._api = api
        self._node_api = node_api
        self._wait = OperationWait(api)

    async def delete(self, zone: str, name: str, *, dry_run: bool = False) -> AsyncIterator[str]:
        """Delete a slice, and its queued resource if it has no other node; yield what is done and what stays.

        Raises UsageError if there is nothing to delete, CloudError if the API refuses.
        """
        path = await self._path(zone, name)
        what = f"slice {name} cannot be deleted"
        node = await self._wait.node(path)
        queued = await self._queued_for(node, path, name)
        if node is None and queued is None:
            raise NoSuchResourceError(
                what, why=f"there is no slice {name} in {zone}", remedy="tpu-tui slices lists them"
            )
        other_nodes = await self._other_nodes(queued, path) if queued is not None else []
        if node is None and queued is not None and other_nodes:
            raise _held_by_others(what, queued, other_nodes)
        if dry_run:
            if node is not None:
                slice_ = tpu_messages.slice_of_node(node)
                kind, disks = ("TPU Node ", "") if slice_.is_tpu_node else ("", ", and its workers' disks")
                yield f"would delete {kind}{name} in {zone}, now {slice_.state}{disks}"
            if queued is not None:
                yield _stays(queued, other_nodes) if other_nodes else f"would delete {_describe_queued(queued, name)}"
            return
        if node is not None:
            wait = OperationWait(self._api_of(node))
            operation = await wait.begin(what, "delete_node", {"name": path}, lambda _: _deletion(wait, path))
            yield f"requested the deletion of {name}"
            async for progress in wait.finish(operation, what, path):
                yield progress
            yield f"{name} is deleted"
        if queued is not None and other_nodes:
            yield _stays(queued, other_nodes)
        elif queued is not None:
            async for progress in delete_queued(self._api, queued.name, _describe_queued(queued, name), force=True):
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
        node = await self._require_node(path, what)
        slice_, wait = tpu_messages.slice_of_node(node), OperationWait(self._api_of(node))
        if not can_stop(slice_):
            why = f"{CANNOT_STOP}, and it has {len(slice_.workers or slice_.node_endpoints)}"
            raise UsageError(what, why=why, remedy=make_anew(slice_))
        if dry_run:
            yield f"would {verb} {name} in {zone}, now {slice_.state or 'in an unknown state'}"
            return

        async def lost_operation(is_lost: bool) -> Operation | None:
            is_begun = is_lost and await wait.state(path) in _BEGUN[verb]
            return await wait.newest(verb, path) if is_begun else None

        operation = await wait.begin(what, f"{verb}_node", {"name": path}, lost_operation)
        yield f"requested the {verb} of {name}"
        async for progress in wait.finish(operation, what, path):
            yield progress
        after = await self._wait.node(path)
        state = None if after is None else tpu_messages.enum_name(after.state)
        if after is None or state in _LOST:
            why = f"it is {state or 'gone'}: spot capacity can be taken back, and others can delete slices"
            remedy = create_again(slice_) if after is None else make_anew(slice_)
            raise CloudError(f"slice {name} was {done} and lost", why=why, remedy=remedy)
        yield f"{name} is {state or done}"

    async def metadata(self, zone: str, name: str) -> dict[str, str]:
        """Return a slice's present metadata. Raises UsageError when there is no such slice."""
        path = await self._path(zone, name)
        node = await self._wait.node(path)
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

        The API replaces the whole map, and accepts one update of a node at a time: while another one is in progress,
        the change is made again to the metadata that it leaves.
        """
        from google.api_core.exceptions import Aborted
        from google.cloud import tpu_v2
        from google.protobuf.field_mask_pb2 import FieldMask

        path = await self._path(zone, name)
        what = f"metadata of {name} cannot be changed"
        for pause in (*_BUSY_PAUSES_S, None):
            node = tpu_v2.Node(name=path, metadata=change(await self.metadata(zone, name)))
            fields = {"node": node, "update_mask": FieldMask(paths=["metadata"])}
            try:
                operation = await self._wait.begin(what, "update_node", fields)
                break
            except TpuTuiError as error:
                if pause is None or not isinstance(error.__cause__, Aborted):
                    raise
            yield f"{name} is busy with another operation"
            await asyncio.sleep(pause)
        async for progress in self._wait.finish(operation, what, None):
            yield progress

    def _api_of(self, node: tpu_v2.Node) -> ApiConnection:
        """Return the connection by which a node is changed."""
        return self._node_api if tpu_messages.slice_of_node(node).is_tpu_node else self._api

    async def _path(self, zone: str, name: str) -> str:
        await self._api.open()
        return self._api.node_path(zone, name)

    async def _other_nodes(self, queued: tpu_v2.QueuedResource, path: str) -> list[str]:
        """Return the names of the other nodes of a queued resource that exist, without the one at `path`."""
        parent, _, name = path.rpartition("/nodes/")
        what = f"nodes of queued resource {_short(queued)} cannot be read"
        pages = await self._api.pages(what, "list_nodes", {"parent": parent})
        nodes, short = (node for page in pages for node in page.nodes), _short(queued)
        members = [node for node in nodes if last_part(node.queued_resource) == short]
        return sorted({last_part(node.name) for node in members} - {name})

    async def _require_node(self, path: str, what: str) -> tpu_v2.Node:
        """Return the node of a slice. Raises UsageError if there is none."""
        node = await self._wait.node(path)
        if node is None:
            raise UsageError(what, why="there is no such slice", remedy="tpu-tui slices lists them")
        return node

    async def _queued_for(self, node: tpu_v2.Node | None, path: str, name: str) -> tpu_v2.QueuedResource | None:
        """Return the queued resource of a slice: the one that created its node, or that will create it."""
        parent = path.rpartition("/nodes/")[0]
        if node is not None:
            short = last_part(node.queued_resource)
            return await self._wait.queued_resource(f"{parent}/queuedResources/{short}") if short else None
        what = f"queued resources of {name} cannot be read"
        pages = await self._api.pages(what, "list_queued_resources", {"parent": parent})
        requests: Iterator[tpu_v2.QueuedResource] = (queued for page in pages for queued in page.queued_resources)
        return next((queued for queued in requests if name in tpu_messages.queued_node_ids(queued)), None)


async def _deletion(wait: OperationWait, path: str) -> Operation | None:
    """Return the operation that deletes a node; one that is done if the node is gone."""
    from google.longrunning.operations_pb2 import Operation

    state = await wait.state(path)
    if state is None:
        return Operation(done=True)
    return await wait.newest("delete", path) if state == "DELETING" else None


def _short(queued: tpu_v2.QueuedResource) -> str:
    return last_part(str(queued.name))


def _describe_queued(queued: tpu_v2.QueuedResource, name: str) -> str:
    """Describe a queued resource, with the slices other than `name` that it requests."""
    other_slices = sorted({*tpu_messages.queued_node_ids(queued)} - {name})
    also = f", which also requests {', '.join(other_slices)}," if other_slices else ""
    return f"queued resource {_short(queued)}{also}"


def _belong(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'belongs' if len(names) == 1 else 'belong'} to it too"


def _stays(queued: tpu_v2.QueuedResource, names: Sequence[str]) -> str:
    return f"queued resource {_short(queued)} stays: {_belong(names)}"


def _held_by_others(what: str, queued: tpu_v2.QueuedResource, names: Sequence[str]) -> UsageError:
    why = f"it has no node, and queued resource {_short(queued)} stays while {_belong(names)}"
    deletes = " && ".join(delete_command(name, tpu_messages.split_name(queued.name)[1]) for name in names)
    return UsageError(what, why=why, remedy=f"the queued resource goes with its last slice: {deletes}")

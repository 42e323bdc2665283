"""Resize requests of managed groups: they wait until all of their machines can be created at once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiohttp import web

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api.compute.answers import (
    PROJECT,
    ROOT,
    ComputeError,
    answer,
    invalid_field,
    list_answer,
    missing,
    now,
    read_document,
)
from tui.localpod.api.compute.documents import name_in
from tui.localpod.api.compute.group_routes import UPDATE, GroupRoutes
from tui.localpod.api.compute.groups import MANAGERS, Group, ManagedGroups, Member
from tui.localpod.api.compute.guard import ZONE, Guard
from tui.localpod.api.compute.operations import Act, ComputeOperations

_SHORTEST_S, _LONGEST_S = 600, 7 * 24 * 3600
"""The limits of a request's run duration (Compute Engine documentation, "About resize requests in a MIG")."""
_OPEN = ("CREATING", "ACCEPTED")
_SHAPE = {"name": str, "resizeBy": int, "requestedRunDuration": {"seconds": int}}


class ResizeRequest(NamedTuple):
    """One request. Its machines are managed instances of the group from the moment of the request."""

    document: dict[str, Any]
    """`state` is CREATING, ACCEPTED (it waits for capacity), SUCCEEDED or CANCELLED."""
    members: list[Member]


class ResizeRequests:
    """Serves the requests of every group."""

    def __init__(
        self, groups: ManagedGroups, group_routes: GroupRoutes, operations: ComputeOperations, tasks: BackgroundTasks
    ) -> None:
        self._groups = groups
        self._group_routes = group_routes
        self._operations = operations
        self._tasks = tasks
        self._requests: dict[str, ResizeRequest] = {}

    def routes(self, guard: Guard) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        base = f"{PROJECT}/{ZONE}/{MANAGERS}/{{name}}/resizeRequests"
        resource = f"{base}/{{request}}"
        yield web.get(base, guard(f"compute.{MANAGERS}.get", self._list))
        yield web.post(base, guard(UPDATE, self._insert))
        yield web.get(resource, guard(f"compute.{MANAGERS}.get", self._get))
        yield web.post(f"{resource}/cancel", guard(UPDATE, self._cancel))
        yield web.delete(resource, guard(UPDATE, self._delete))

    async def _list(self, request: web.Request) -> web.Response:
        prefix = f"{self._group_routes.group_of(request).path}/resizeRequests/"
        documents = [
            resize_request.document
            for path, resize_request in sorted(self._requests.items())
            if path.startswith(prefix)
        ]
        return list_answer(request, "instanceGroupManagerResizeRequest", documents)

    async def _insert(self, request: web.Request) -> web.Response:
        group, body = self._group_routes.group_of(request), await read_document(request, _SHAPE)
        name, count = name_in(body), int(body.get("resizeBy", 0))
        path = f"{group.path}/resizeRequests/{name}"
        if path in self._requests:
            raise ComputeError(409, f"The resource '{path}' already exists")
        if count < 1:
            raise invalid_field("resource.resizeBy", count, "Must be a positive number.")
        if group.is_bulk:
            raise ComputeError(400, f"Resize requests of '{group.path}' are not supported: its mode is BULK.")
        if group.repairs:
            raise ComputeError(400, f"Repairs of '{group.path}' must be turned off for resize requests.")
        duration = body.get("requestedRunDuration")
        if duration and not _SHORTEST_S <= int(duration.get("seconds", 0)) <= _LONGEST_S:
            seconds = duration.get("seconds")
            why = f"Must be from {_SHORTEST_S} to {_LONGEST_S} seconds."
            raise invalid_field("resource.requestedRunDuration.seconds", seconds, why)
        document: dict[str, Any] = {
            "kind": "compute#instanceGroupManagerResizeRequest",
            "id": str(secrets.randbits(62) | 1),
            "creationTimestamp": now(),
            "name": name,
            "zone": group.document["zone"],
            "selfLink": ROOT + path,
            "resizeBy": count,
            "state": "CREATING",
            **{key: body[key] for key in ("description", "requestedRunDuration") if key in body},
        }
        resize_request = self._requests[path] = ResizeRequest(document, self._groups.grow(group, count, name))
        task = self._tasks.start(self._fulfil(group, resize_request))
        for member in resize_request.members:
            member.task = task
        return self._start(request, "insert", group)

    async def _fulfil(self, group: Group, request: ResizeRequest) -> None:
        request.document["state"] = "ACCEPTED"
        await self._groups.create_together(group, request.members)
        request.document["state"] = "SUCCEEDED"

    def _one(self, request: web.Request) -> tuple[Group, str, ResizeRequest]:
        group = self._group_routes.group_of(request)
        path = f"{group.path}/resizeRequests/{request.match_info['request']}"
        if path not in self._requests:
            raise missing(request)
        return group, path, self._requests[path]

    async def _get(self, request: web.Request) -> web.Response:
        _, _, resize_request = self._one(request)
        errors = [member.error for member in resize_request.members if member.error]
        attempt: dict[str, Any] = {"lastAttempt": {"error": errors[0].to_errors()}} if errors else {}
        return answer({**resize_request.document, "status": attempt})

    async def _cancel(self, request: web.Request) -> web.Response:
        group, path, resize_request = self._one(request)
        state = resize_request.document["state"]
        if state not in _OPEN:
            raise ComputeError(400, f"The resize request '{path}' is {state} and cannot be cancelled.")
        resize_request.document["state"] = "CANCELLED"
        self._groups.delete_members(group, resize_request.members)
        return self._start(request, "cancel", group)

    async def _delete(self, request: web.Request) -> web.Response:
        group, path, resize_request = self._one(request)
        state = resize_request.document["state"]
        if state in _OPEN:
            raise ComputeError(400, f"The resize request '{path}' is {state}: cancel it before you delete it.")
        return self._start(request, "delete", group, lambda: self._requests.pop(path, None))

    def _start(self, request: web.Request, verb: str, group: Group, act: Act | None = None) -> web.Response:
        """Start an operation, whose target is the group."""
        return self._operations.start(request, f"compute.{MANAGERS}.resizeRequests.{verb}", group.path, act)

"""The operations of the local pod's Compute Engine API: one store for zones, regions and the project."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api.compute.answers import PROJECT, ROOT, ComputeError, answer, list_answer, missing, now
from tui.localpod.api.compute.guard import PLACES, Guard, place_field, place_of
from tui.localpod.api.conditions import ServiceConditions

_WAIT_S = 120.0
"""The longest wait of the method `wait` (Compute Engine API v1)."""
_LOG = logging.getLogger(__name__)

Act = Callable[[], Any]
"""The change that an operation makes; it may return an awaitable. Its ComputeError becomes the operation's error."""


class ComputeOperations:
    """Every operation since the service started."""

    def __init__(self, project: str, conditions: ServiceConditions, tasks: BackgroundTasks) -> None:
        self._project = project
        self._conditions = conditions
        self._tasks = tasks
        self._documents: dict[str, dict[str, Any]] = {}
        self._by_request: dict[str, str] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        """The task of each operation in progress."""

    def routes(self, guard: Guard) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        for scope, place in PLACES.items():
            base = f"{PROJECT}/{place}/operations"
            permission = f"compute.{scope}Operations"
            yield web.get(base, guard(f"{permission}.list", self._list))
            yield web.get(f"{base}/{{name}}", guard(f"{permission}.get", self._get))
            yield web.post(f"{base}/{{name}}/wait", guard(f"{permission}.get", self._wait))

    def find_earlier(self, request: web.Request) -> web.Response | None:
        """Return the operation that an earlier request with the same ID started, if there was one."""
        name = self._by_request.get(request.query.get("requestId", ""))
        return answer(self._documents[name]) if name else None

    def start(self, request: web.Request, verb: str, path: str, act: Act | None = None) -> web.Response:
        """Start an operation on the resource at `path` and return it; `act` runs at its end."""
        operation = self._new(verb, place_of(request), path)
        name = operation["name"]
        if request_id := request.query.get("requestId"):
            self._by_request[request_id] = name
        task = self._work[name] = self._tasks.start(self._finish(operation, act))
        task.add_done_callback(lambda _: self._work.pop(name))
        return answer(operation)

    def _new(self, verb: str, place: str, path: str) -> dict[str, Any]:
        name = f"operation-{secrets.token_hex(8)}"
        operation = {
            "kind": "compute#operation",
            "id": str(secrets.randbits(62) | 1),
            "name": name,
            "operationType": verb,
            "targetLink": ROOT + path,
            "status": "RUNNING",
            "progress": 0,
            "insertTime": now(),
            "startTime": now(),
            "selfLink": f"{ROOT}projects/{self._project}/{place}/operations/{name}",
            **place_field(self._project, place),
        }
        self._documents[name] = operation
        return operation

    def record_event(self, kind: str, place: str, path: str, target_id: str) -> None:
        """Add a finished operation of the system, e.g. `compute.instances.preempted`."""
        operation = self._new(kind, place, path)
        operation.update(user="system", targetId=target_id, status="DONE", progress=100, endTime=now())

    async def _finish(self, operation: dict[str, Any], act: Act | None) -> None:
        try:
            await self._conditions.operation_delay()
            result = act() if act is not None else None
            if inspect.isawaitable(result):
                await result
        except ComputeError as error:
            operation.update(error=error.to_errors(), httpErrorStatusCode=error.status, httpErrorMessage=error.reason)
        except Exception as error:
            _LOG.exception("%s of %s failed", operation["operationType"], operation["targetLink"])
            operation["error"] = {"errors": [{"code": "INTERNAL_ERROR", "message": f"Internal error: {error}"}]}
        operation.update(status="DONE", progress=100, endTime=now())

    async def _list(self, request: web.Request) -> web.Response:
        prefix = f"{ROOT}projects/{self._project}/{place_of(request)}/operations/"
        rows = [operation for operation in self._documents.values() if operation["selfLink"].startswith(prefix)]
        return list_answer(request, "operation", rows)

    async def _get(self, request: web.Request) -> web.Response:
        return answer(self._operation(request))

    async def _wait(self, request: web.Request) -> web.Response:
        if task := self._work.get(self._operation(request)["name"]):
            await asyncio.wait({task}, timeout=_WAIT_S)
        return answer(self._operation(request))

    def _operation(self, request: web.Request) -> dict[str, Any]:
        operation = self._documents.get(request.match_info["name"])
        if operation is None:
            raise missing(request)
        return operation

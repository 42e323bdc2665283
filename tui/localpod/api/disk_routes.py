"""The disks, images and operations of the local pod's Compute Engine API."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from tui.localpod.api.compute_answers import (
    PROJECT,
    ROOT,
    ComputeError,
    answer,
    missing,
    page_of,
    read_document,
)
from tui.localpod.api.faults import ServiceFaults
from tui.localpod.api.resources.disks import DISKS, GLOBAL, IMAGES, DisksAndImagesStore

Handler = Callable[[web.Request], Awaitable[web.Response]]
Guard = Callable[[str, Handler], Handler]
"""Wraps the handler of requests that need a permission."""
_WAIT_S = 120.0
"""How long `operations.wait` waits at most (Compute Engine API v1)."""
_OWN_ZONE = "zones/{zone}"


class DiskRoutes:
    """Serves the store; operations take the faults' time and fail as they would at once."""

    def __init__(self, store: DisksAndImagesStore, faults: ServiceFaults, zones: Callable[[], list[str]]) -> None:
        self._store = store
        self._faults = faults
        self._zones = zones
        self._operations: dict[str, dict[str, Any]] = {}
        self._by_request: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def routes(self, guard: Guard) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        aggregated = guard("compute.disks.list", self._list_everywhere)
        yield web.get(f"{PROJECT}/aggregated/disks", aggregated)
        for collection, place in ((DISKS, _OWN_ZONE), (IMAGES, GLOBAL)):
            base = f"{PROJECT}/{place}/{collection}"
            one = f"{base}/{{name}}"
            yield web.get(base, guard(f"compute.{collection}.list", self._in(collection, self._list)))
            yield web.post(base, guard(f"compute.{collection}.create", self._in(collection, self._insert)))
            yield web.get(one, guard(f"compute.{collection}.get", self._in(collection, self._get)))
            yield web.delete(one, guard(f"compute.{collection}.delete", self._in(collection, self._delete)))
            yield web.post(
                f"{one}/setLabels", guard(f"compute.{collection}.setLabels", self._in(collection, self._set_labels))
            )
        for place in (_OWN_ZONE, GLOBAL):
            operation = f"{PROJECT}/{place}/operations/{{name}}"
            kind = "zoneOperations" if place == _OWN_ZONE else "globalOperations"
            yield web.get(operation, guard(f"compute.{kind}.get", self._get_operation))
            yield web.post(f"{operation}/wait", guard(f"compute.{kind}.get", self._wait))

    async def close(self) -> None:
        """Cancel operations that are in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    def _in(collection: str, handle: Callable[[web.Request, str, str], Awaitable[web.Response]]) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            return await handle(request, collection, _place(request))

        return handler

    async def _list_everywhere(self, request: web.Request) -> web.Response:
        """Return a page of the disks of all zones, by zone."""
        refuse_filter(request)
        rows = [(place, row) for place in self._store.places(DISKS) for row in self._store.list_all(DISKS, place)]
        page, more = page_of(request, [{"place": place, "row": row} for place, row in rows])
        items: dict[str, Any] = {}
        for entry in page:
            items.setdefault(entry["place"], {"disks": []})["disks"].append(entry["row"])
        for zone in self._zones():
            silent = {"warning": {"code": "UNREACHABLE", "message": f"{zone} did not answer"}}
            if self._faults.is_unavailable(zone):
                items[f"zones/{zone}"] = silent
        return answer({"kind": "compute#diskAggregatedList", "items": items, **more})

    async def _list(self, request: web.Request, collection: str, place: str) -> web.Response:
        refuse_filter(request)
        rows, more = page_of(request, self._store.list_all(collection, place))
        kind = f"compute#{collection.removesuffix('s')}List"
        return answer({"kind": kind, **({"items": rows} if rows else {}), **more})

    async def _get(self, request: web.Request, collection: str, place: str) -> web.Response:
        return answer(self._store.get(self._path(request, collection, place)))

    async def _insert(self, request: web.Request, collection: str, place: str) -> web.Response:
        wanted = await read_document(request)
        if collection == DISKS and place.rpartition("/")[2] not in self._zones():
            raise ComputeError(400, f"Invalid value for field 'zone': '{place.rpartition('/')[2]}'. Unknown zone.")
        if (image := request.query.get("sourceImage")) is not None:
            wanted["sourceImage"] = image
        path = self._store.path(collection, place, str(wanted.get("name")))
        return self._start(
            request, "insert", place, path, lambda: self._store.insert(collection, place, wanted), at_once=True
        )

    async def _delete(self, request: web.Request, collection: str, place: str) -> web.Response:
        path = self._path(request, collection, place)
        if (known := self._known(request)) is not None:
            return answer(known)
        if self._store.get(path).get("users"):
            self._store.delete(path)  # raises the API's refusal
        return self._start(request, "delete", place, path, lambda: self._store.delete(path))

    async def _set_labels(self, request: web.Request, collection: str, place: str) -> web.Response:
        wanted, path = await read_document(request), self._path(request, collection, place)
        return self._start(
            request, "setLabels", place, path, lambda: self._store.set_labels(path, wanted), at_once=True
        )

    async def _get_operation(self, request: web.Request) -> web.Response:
        return answer(self._operation(request))

    async def _wait(self, request: web.Request) -> web.Response:
        name = self._operation(request)["name"]
        if task := self._tasks.get(name):
            await asyncio.wait({task}, timeout=_WAIT_S)
        return answer(self._operation(request))

    def _operation(self, request: web.Request) -> dict[str, Any]:
        found = self._operations.get(request.match_info["name"])
        if found is None:
            raise missing(request)
        return found

    def _path(self, request: web.Request, collection: str, place: str) -> str:
        return self._store.path(collection, place, request.match_info["name"])

    def _known(self, request: web.Request) -> dict[str, Any] | None:
        """Return the operation that a request with this ID has started."""
        name = self._by_request.get(request.query.get("requestId", ""))
        return self._operations[name] if name else None

    def _start(
        self,
        request: web.Request,
        verb: str,
        place: str,
        path: str,
        act: Callable[[], object],
        *,
        at_once: bool = False,
    ) -> web.Response:
        """Start an operation and return it; with `at_once` the change is made before its time."""
        if (known := self._known(request)) is not None:
            return answer(known)
        if at_once:
            act()
        name = f"operation-{secrets.token_hex(8)}"
        project = self._store.project
        operation = {
            "kind": "compute#operation",
            "id": str(secrets.randbits(62) | 1),
            "name": name,
            "operationType": verb,
            "targetLink": ROOT + path,
            "status": "RUNNING",
            "progress": 0,
            "insertTime": _now(),
            "startTime": _now(),
            "selfLink": f"{ROOT}projects/{project}/{place}/operations/{name}",
            **({} if place == GLOBAL else {"zone": f"{ROOT}projects/{project}/{place}"}),
        }
        self._operations[name] = operation
        if request_id := request.query.get("requestId"):
            self._by_request[request_id] = name
        self._tasks[name] = asyncio.ensure_future(self._finish(operation, (lambda: None) if at_once else act))
        return answer(operation)

    async def _finish(self, operation: dict[str, Any], act: Callable[[], object]) -> None:
        await self._faults.operation_delay()
        try:
            act()
        except ComputeError as error:
            code = "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE" if error.status == 400 else "RESOURCE_NOT_FOUND"
            operation["error"] = {"errors": [{"code": code, "message": str(error)}]}
            operation["httpErrorStatusCode"] = error.status
        operation.update(status="DONE", progress=100, endTime=_now())
        del self._tasks[operation["name"]]


def refuse_filter(request: web.Request) -> None:
    """Raise ComputeError for a filter, which the real service has and this one lacks."""
    if request.query.get("filter") or request.query.get("orderBy"):
        raise ComputeError(400, "filter and orderBy are not implemented.")


def _place(request: web.Request) -> str:
    zone = request.match_info.get("zone")
    return f"zones/{zone}" if zone else GLOBAL


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")

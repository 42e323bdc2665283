"""The routes of machines, machine types, zones and regions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from tui.localpod.api.compute.answers import (
    PROJECT,
    ROOT,
    answer,
    invalid_field,
    list_answer,
    missing,
    read_document,
)
from tui.localpod.api.compute.collection_routes import CollectionRoutes, Rows
from tui.localpod.api.compute.documents import INSTANCES, METADATA, SHAPES, TEMPLATES, DocumentStore, singular
from tui.localpod.api.compute.guard import GLOBAL, ZONE, Guard, place_of
from tui.localpod.api.compute.instances import Instances, Vm
from tui.localpod.api.compute.machine_types import MACHINE_TYPES
from tui.localpod.api.compute.operations import ComputeOperations
from tui.pod.api_paths import last_part, region_of


class InstanceRoutes:
    """Serves the machines, without those of TPU VMs: their project is not the user's."""

    def __init__(
        self,
        store: DocumentStore,
        instances: Instances,
        operations: ComputeOperations,
        zones: Sequence[str],
    ) -> None:
        self._store = store
        self._instances = instances
        self._operations = operations
        self._zones = zones

    def routes(self, guard: Guard, collections: CollectionRoutes) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        base = f"{PROJECT}/{ZONE}/{INSTANCES}"
        resource = f"{base}/{{name}}"
        yield collections.aggregated(guard, INSTANCES, partial(collections.rows, INSTANCES))
        yield web.get(base, guard("compute.instances.list", partial(collections.list_place, INSTANCES)))
        yield web.post(base, guard("compute.instances.create", self._insert))
        yield web.get(resource, guard("compute.instances.get", self._get))
        yield web.delete(resource, guard("compute.instances.delete", self._delete))
        for verb, handler in (
            ("stop", partial(self._change, "stop", "STOPPING", self._instances.halt)),
            ("start", partial(self._change, "start", "STAGING", self._instances.boot)),
            ("setMetadata", self._set_metadata),
            ("simulateMaintenanceEvent", self._simulate_maintenance),
        ):
            yield web.post(f"{resource}/{verb}", guard(f"compute.instances.{verb}", handler))
        yield web.get(f"{resource}/getGuestAttributes", guard("compute.instances.getGuestAttributes", self._guest))
        types = f"{PROJECT}/{ZONE}/machineTypes"
        yield web.get(types, guard("compute.machineTypes.list", self._list_types))
        yield web.get(f"{types}/{{name}}", guard("compute.machineTypes.get", self._get_type))
        yield collections.aggregated(guard, "machineTypes", self._type_rows)
        for scope in ("zones", "regions"):
            places = f"{PROJECT}/{scope}"
            yield web.get(places, guard(f"compute.{scope}.list", self._list_places))
            yield web.get(f"{places}/{{name}}", guard(f"compute.{scope}.get", self._get_place))

    async def _insert(self, request: web.Request) -> web.Response:
        body, zone = await read_document(request, SHAPES[INSTANCES]), request.match_info["zone"]
        if zone not in self._zones:
            raise invalid_field("zone", zone, "Unknown zone.")
        if template := request.query.get("sourceInstanceTemplate"):
            path = self._store.path(TEMPLATES, GLOBAL, last_part(template))
            body = {**self._store.get(path)["properties"], **body}
        vm = self._instances.insert(zone, body)
        return self._operations.start(request, "insert", vm.path, lambda: self._instances.boot(vm))

    def _vm(self, request: web.Request) -> Vm:
        return self._instances.get(self._store.path(INSTANCES, place_of(request), request.match_info["name"]))

    async def _get(self, request: web.Request) -> web.Response:
        return answer(self._vm(request).document)

    async def _delete(self, request: web.Request) -> web.Response:
        """Delete a machine, after any operation in progress on it."""
        vm = self._vm(request)

        async def delete() -> None:
            await vm.idle.wait()
            await self._instances.remove(vm)

        return self._operations.start(request, "delete", vm.path, delete)

    async def _change(
        self, verb: str, status: str, act: Callable[[Vm], Awaitable[None]], request: web.Request
    ) -> web.Response:
        """Stop or start a machine, whose status changes at once."""
        vm = self._vm(request)
        self._instances.claim(vm, status)
        return self._operations.start(request, verb, vm.path, lambda: act(vm))

    async def _set_metadata(self, request: web.Request) -> web.Response:
        vm = self._vm(request)
        self._instances.set_metadata(vm, await read_document(request, METADATA))
        return self._operations.start(request, "setMetadata", vm.path)

    async def _simulate_maintenance(self, request: web.Request) -> web.Response:
        """Preempt a spot machine. Any other machine moves to another host without noticing."""
        vm = self._vm(request)
        act = (lambda: self._instances.preempt(vm)) if vm.is_spot else None
        return self._operations.start(request, "simulateMaintenanceEvent", vm.path, act)

    async def _guest(self, request: web.Request) -> web.Response:
        vm, query = self._vm(request), request.query.get("queryPath", "")
        link = f"{ROOT}{vm.path}/guestAttributes/{query}"
        attributes = self._instances.guest_attributes(vm, query)
        document = {"kind": "compute#guestAttributes", "queryPath": query, "selfLink": link}
        return answer(document | {"queryValue": {"items": attributes}})

    def _type_rows(self) -> Rows:
        for zone in self._zones:
            yield from (
                (f"zones/{zone}", machine.to_document(self._store.project, zone))
                for machine in MACHINE_TYPES.values()
            )

    async def _list_types(self, request: web.Request) -> web.Response:
        place = place_of(request)
        return list_answer(request, "machineType", [row for there, row in self._type_rows() if there == place])

    async def _get_type(self, request: web.Request) -> web.Response:
        zone, machine = request.match_info["zone"], MACHINE_TYPES.get(request.match_info["name"])
        if machine is None or zone not in self._zones:
            raise missing(request)
        return answer(machine.to_document(self._store.project, zone))

    def _places(self, scope: str) -> list[dict[str, Any]]:
        project = f"{ROOT}projects/{self._store.project}"
        if scope == "zones":
            return [
                _place_document(project, "zones", zone) | {"region": f"{project}/regions/{region_of(zone)}"}
                for zone in self._zones
            ]
        regions = sorted({region_of(zone) for zone in self._zones})
        return [
            _place_document(project, "regions", region)
            | {"zones": [f"{project}/zones/{zone}" for zone in self._zones if region_of(zone) == region]}
            for region in regions
        ]

    async def _list_places(self, request: web.Request) -> web.Response:
        scope = last_part(request.path)
        return list_answer(request, singular(scope), self._places(scope))

    async def _get_place(self, request: web.Request) -> web.Response:
        scope, name = request.path.split("/")[-2:]
        for row in self._places(scope):
            if row["name"] == name:
                return answer(row)
        raise missing(request)


def _place_document(project: str, scope: str, name: str) -> dict[str, Any]:
    kind = f"compute#{singular(scope)}"
    return {"kind": kind, "id": "1", "name": name, "status": "UP", "selfLink": f"{project}/{scope}/{name}"}

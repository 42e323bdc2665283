"""The routes of managed instance groups and of the instance groups that they control."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from tui.localpod.api.compute.answers import (
    PROJECT,
    ROOT,
    ComputeError,
    answer,
    invalid_field,
    list_answer,
    missing_path,
    page_of,
    read_document,
    relative,
)
from tui.localpod.api.compute.collection_routes import CollectionRoutes, Rows
from tui.localpod.api.compute.documents import POLICIES, TEMPLATES, DocumentStore, fingerprint, singular
from tui.localpod.api.compute.groups import BULK, DO_NOTHING, MANAGERS, Group, ManagedGroups, Member
from tui.localpod.api.compute.guard import GLOBAL, ZONE, Guard, place_of
from tui.localpod.api.compute.operations import ComputeOperations
from tui.pod.api_paths import last_part, region_of
from tui.text.numbers import parse_integer

_COPIED = ("description", "targetSizePolicy", "resourcePolicies", "namedPorts")
_GROUP = {
    "name": str,
    "baseInstanceName": str,
    "targetSize": int,
    "instanceTemplate": str,
    "versions": [{"instanceTemplate": str}],
    "targetSizePolicy": {"mode": str},
    "resourcePolicies": {"workloadPolicy": str},
    "instanceLifecyclePolicy": {"defaultActionOnFailure": str},
    "updatePolicy": {},
}
"""The shape of a request for a new group."""
_MAX_MACHINES = 1000
_CONTROLLED = (
    "This instance group is controlled by Instance Group Manager '{name}'. To modify instances in this group, use "
    "the Instance Group Manager API: https://cloud.google.com/compute/docs/reference/latest/instanceGroupManagers"
)
UPDATE = "compute.instanceGroupManagers.update"
_GROUPS = "instanceGroups"

ToDocument = Callable[[Group], dict[str, Any]]
"""Returns a group in the form of the API's answers: as a manager, or as the instance group that it controls."""


class GroupRoutes:
    """Serves the managed groups. An operation on a group ends before the machines of the group have changed."""

    def __init__(
        self, store: DocumentStore, groups: ManagedGroups, operations: ComputeOperations, zones: Sequence[str]
    ) -> None:
        self._store = store
        self._groups = groups
        self._operations = operations
        self._zones = zones

    def routes(self, guard: Guard, collections: CollectionRoutes) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        base = f"{PROJECT}/{ZONE}/{MANAGERS}"
        resource = f"{base}/{{name}}"
        to_manager, to_group = self._groups.to_document, self._to_instance_group
        yield collections.aggregated(guard, MANAGERS, partial(self._rows, to_manager))
        yield web.get(base, guard(f"compute.{MANAGERS}.list", partial(self._list, MANAGERS, to_manager)))
        yield web.post(base, guard(f"compute.{MANAGERS}.create", self._insert))
        yield web.get(resource, guard(f"compute.{MANAGERS}.get", partial(self._get, to_manager)))
        yield web.delete(resource, guard(f"compute.{MANAGERS}.delete", self._delete))
        yield web.post(f"{resource}/resize", guard(UPDATE, self._resize))
        for verb, change in (
            ("recreateInstances", self._groups.recreate),
            ("deleteInstances", self._groups.delete_members),
        ):
            yield web.post(f"{resource}/{verb}", guard(UPDATE, partial(self._change_members, verb, change)))
        yield web.post(f"{resource}/listManagedInstances", guard(f"compute.{MANAGERS}.get", self._list_managed))
        groups = f"{PROJECT}/{ZONE}/{_GROUPS}"
        yield collections.aggregated(guard, _GROUPS, partial(self._rows, to_group))
        yield web.get(groups, guard("compute.instanceGroups.list", partial(self._list, _GROUPS, to_group)))
        yield web.get(f"{groups}/{{name}}", guard("compute.instanceGroups.get", partial(self._get, to_group)))
        yield web.post(f"{groups}/{{name}}/listInstances", guard("compute.instanceGroups.list", self._list_instances))
        yield collections.aggregated(guard, "autoscalers", lambda: ())
        yield web.get(f"{PROJECT}/{ZONE}/autoscalers", guard("compute.autoscalers.list", _no_autoscalers))

    def group_of(self, request: web.Request) -> Group:
        """Return the managed group that a request's path names. Raises ComputeError."""
        return self._groups.get(self._store.path(MANAGERS, place_of(request), request.match_info["name"]))

    def _rows(self, to_document: ToDocument) -> Rows:
        return [(f"zones/{group.zone}", to_document(group)) for group in self._groups.all()]

    async def _list(self, collection: str, to_document: ToDocument, request: web.Request) -> web.Response:
        zone = request.match_info["zone"]
        rows = [to_document(group) for group in self._groups.all() if group.zone == zone]
        return list_answer(request, singular(collection), rows)

    async def _get(self, to_document: ToDocument, request: web.Request) -> web.Response:
        return answer(to_document(self.group_of(request)))

    async def _insert(self, request: web.Request) -> web.Response:
        body, zone = await read_document(request, _GROUP), request.match_info["zone"]
        if zone not in self._zones:
            raise invalid_field("zone", zone, "Unknown zone.")
        path = self._store.check_new(MANAGERS, f"zones/{zone}", body)
        template = self._template(body)
        size = int(body.get("targetSize", -1))
        if not 0 <= size <= _MAX_MACHINES:
            raise invalid_field("resource.targetSize", size, f"Must be a number from 0 to {_MAX_MACHINES}.")
        lifecycle = {"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "NO"}
        lifecycle |= body.get("instanceLifecyclePolicy", {})
        self._check_policies(body, zone, lifecycle, self._store.get(template)["properties"])
        document = self._store.add(
            path,
            {
                **{key: body[key] for key in _COPIED if key in body},
                "baseInstanceName": body.get("baseInstanceName") or body["name"],
                "instanceTemplate": ROOT + template,
                "instanceGroup": f"{ROOT}{self._store.path(_GROUPS, f'zones/{zone}', body['name'])}",
                "instanceLifecyclePolicy": lifecycle,
                "updatePolicy": body.get("updatePolicy")
                or {"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "replacementMethod": "SUBSTITUTE"},
                "listManagedInstancesResults": "PAGELESS",
                "fingerprint": fingerprint(body),
            },
        )
        self._groups.add(path, zone, document, size)
        return self._operations.start(request, "insert", path)

    def _template(self, body: dict[str, Any]) -> str:
        """Return the path of the template that a new group names. Raises ComputeError."""
        address = body.get("instanceTemplate") or next(
            (version.get("instanceTemplate") for version in body.get("versions", ())), None
        )
        if not address:
            raise ComputeError(400, "Required field 'resource.instanceTemplate' not specified", "required")
        path = relative(address) if "/" in address else self._store.path(TEMPLATES, GLOBAL, address)
        path = path if path.startswith("projects/") else f"projects/{self._store.project}/{path}"
        self._store.get(path)
        return path

    def _check_policies(
        self, body: dict[str, Any], zone: str, lifecycle: dict[str, Any], properties: dict[str, Any]
    ) -> None:
        """Raise ComputeError for a policy that does not exist or does not fit the template."""
        policies = body.get("resourcePolicies", {})
        if address := policies.get("workloadPolicy"):
            path = self._store.path(POLICIES, f"regions/{region_of(zone)}", last_part(address))
            if not self._store.exists(path):
                raise missing_path(path)
            policies["workloadPolicy"] = ROOT + path
        mode = body.get("targetSizePolicy", {}).get("mode", "INDIVIDUAL")
        if mode not in (BULK, "INDIVIDUAL"):
            raise invalid_field("resource.targetSizePolicy.mode", mode, "Must be one of [BULK, INDIVIDUAL].")
        is_flexible = properties.get("scheduling", {}).get("provisioningModel") == "FLEX_START"
        if mode == BULK and is_flexible and lifecycle["defaultActionOnFailure"] != DO_NOTHING:
            raise invalid_field(
                "resource.instanceLifecyclePolicy.defaultActionOnFailure",
                lifecycle["defaultActionOnFailure"],
                "Must be DO_NOTHING for a group in bulk mode whose template has the flex-start provisioning model.",
            )

    async def _delete(self, request: web.Request) -> web.Response:
        group = self.group_of(request)
        return self._operations.start(request, "delete", group.path, lambda: self._groups.delete(group))

    async def _resize(self, request: web.Request) -> web.Response:
        group, text = self.group_of(request), request.query.get("size", "")
        if (size := parse_integer(text, _MAX_MACHINES)) is None:
            raise invalid_field("size", text, f"Must be a number from 0 to {_MAX_MACHINES}.")
        self._groups.resize(group, size)
        return self._operations.start(request, f"compute.{MANAGERS}.resize", group.path)

    async def _change_members(
        self, verb: str, change: Callable[[Group, list[Member]], None], request: web.Request
    ) -> web.Response:
        shape = {"instances": [str], "skipInstancesOnValidationError": bool}
        group, body = self.group_of(request), await read_document(request, shape)
        members = self._named_members(group, body)
        self._groups.check_apart(group, members)
        change(group, members)
        return self._operations.start(request, f"compute.{MANAGERS}.{verb}", group.path)

    def _named_members(self, group: Group, body: dict[str, Any]) -> list[Member]:
        """Return the members that a request names. Raises ComputeError."""
        members: list[Member] = []
        for number, address in enumerate(body.get("instances", ())):
            member = group.members.get(last_part(address))
            if member is None and not body.get("skipInstancesOnValidationError"):
                why = f"Instance is not a member of '{group.path}'."
                raise invalid_field(f"instances[{number}]", address, why)
            members += [member] if member is not None else []
        return members

    async def _list_managed(self, request: web.Request) -> web.Response:
        group = self.group_of(request)
        rows = [self._groups.managed_instance(group, member) for member in group.members.values()]
        page, more = page_of(request, rows)
        return answer({**({"managedInstances": page} if page else {}), **more})

    def _to_instance_group(self, group: Group) -> dict[str, Any]:
        interfaces = self._store.get(group.template)["properties"].get("networkInterfaces") or [{}]
        network = last_part(interfaces[0].get("network") or "default")
        project = f"{ROOT}projects/{self._store.project}"
        common = {key: group.document[key] for key in ("id", "creationTimestamp", "name", "zone", "fingerprint")}
        return {
            "kind": "compute#instanceGroup",
            **common,
            "description": _CONTROLLED.format(name=group.name),
            "network": f"{project}/global/networks/{network}",
            "subnetwork": f"{project}/regions/{region_of(group.zone)}/subnetworks/{network}",
            "selfLink": group.document["instanceGroup"],
            "size": sum(self._groups.vm(group, member) is not None for member in group.members.values()),
        }

    async def _list_instances(self, request: web.Request) -> web.Response:
        group, body = self.group_of(request), await read_document(request, {"instanceState": str})
        vms = [vm for member in group.members.values() if (vm := self._groups.vm(group, member))]
        rows = [{"instance": ROOT + vm.path, "status": vm.document["status"]} for vm in vms]
        if body.get("instanceState") == "RUNNING":
            rows = [row for row in rows if row["status"] == "RUNNING"]
        page, more = page_of(request, rows)
        return answer({"kind": "compute#instanceGroupsListInstances", **({"items": page} if page else {}), **more})


async def _no_autoscalers(request: web.Request) -> web.Response:
    return list_answer(request, "autoscaler", ())

"""The firewall rules, networks and common metadata of the local pod's project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from tui.localpod.api.compute.answers import (
    PROJECT,
    ROOT,
    ComputeError,
    answer,
    list_answer,
    missing,
    read_document,
    relative,
)
from tui.localpod.api.compute.documents import METADATA, name_in, with_fingerprint
from tui.localpod.api.compute.guard import GLOBAL, Guard
from tui.localpod.api.compute.operations import ComputeOperations
from tui.pod.api_paths import last_part

LOOPBACK = "127.0.0.0/8"
"""The range of the workers' addresses."""
_FIREWALLS = f"{PROJECT}/{GLOBAL}/firewalls"
_NETWORK = f"{PROJECT}/{GLOBAL}/networks/{{network}}"
_DEFAULT = "default"
"""The name of the project's only network."""
_REGIONAL = "NETWORK_REGIONAL"
_EVERY_PORT = ["0-65535"]
_DEFAULTS: tuple[dict[str, Any], ...] = (
    {
        "name": "default-allow-internal",
        "priority": 65534,
        "sourceRanges": [LOOPBACK],
        "allowed": [{"IPProtocol": name, "ports": _EVERY_PORT} for name in ("tcp", "udp")],
    },
    {
        "name": "default-allow-ssh",
        "priority": 65534,
        "sourceRanges": ["0.0.0.0/0"],
        "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
    },
)
"""The rules of a new default network (VPC documentation, pre-populated rules), for the pod's own range."""


class NetworkRoutes:
    """Serves one network with its firewall rules and policies, and the project's metadata.

    `metadata_changed` is called after the metadata has been replaced.
    """

    def __init__(self, project: str, operations: ComputeOperations) -> None:
        self._project = project
        self._network = f"{ROOT}projects/{project}/global/networks/{_DEFAULT}"
        self._operations = operations
        self.metadata: dict[str, str] = {}
        self.metadata_changed: Callable[[], None] = lambda: None
        self.firewalls: dict[str, dict[str, Any]] = {}
        self.policies: list[dict[str, Any]] = []
        self.policies_first = False
        for rule in _DEFAULTS:
            self.add(rule)

    def add(self, rule: dict[str, Any]) -> None:
        """Add a firewall rule in the API's JSON, or replace the rule with the same name."""
        defaults = {"kind": "compute#firewall", "network": self._network, "direction": "INGRESS", "priority": 1000}
        self.firewalls[rule["name"]] = {**defaults, "disabled": False, **rule}

    def routes(self, guard: Guard) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        yield web.get(PROJECT, guard("compute.projects.get", self._get_project))
        yield web.post(
            f"{PROJECT}/setCommonInstanceMetadata",
            guard("compute.projects.setCommonInstanceMetadata", self._set_metadata),
        )
        yield web.get(_FIREWALLS, guard("compute.firewalls.list", self._list_firewalls))
        yield web.post(_FIREWALLS, guard("compute.firewalls.create", self._insert_firewall))
        yield web.get(f"{_FIREWALLS}/{{name}}", guard("compute.firewalls.get", self._get_firewall))
        yield web.delete(f"{_FIREWALLS}/{{name}}", guard("compute.firewalls.delete", self._delete_firewall))
        yield web.get(_NETWORK, guard("compute.networks.get", self._get_network))
        yield web.get(
            f"{_NETWORK}/getEffectiveFirewalls", guard("compute.networks.getEffectiveFirewalls", self._of_network)
        )
        yield web.get(
            f"{PROJECT}/regions/{{region}}/firewallPolicies/getEffectiveFirewalls",
            guard("compute.networks.getRegionEffectiveFirewalls", self._of_region),
        )

    def _project_metadata(self) -> dict[str, Any]:
        return with_fingerprint(
            {"items": [{"key": key, "value": self.metadata[key]} for key in sorted(self.metadata)]}
        )

    async def _get_project(self, request: web.Request) -> web.Response:
        name = request.match_info["project"]
        document = {"kind": "compute#project", "id": "1", "name": name, "selfLink": f"{ROOT}projects/{name}"}
        return answer({**document, "commonInstanceMetadata": self._project_metadata()})

    async def _set_metadata(self, request: web.Request) -> web.Response:
        body = await read_document(request, METADATA)
        items = with_fingerprint(body).get("items", ())
        if body.get("fingerprint") not in (None, self._project_metadata()["fingerprint"]):
            raise ComputeError(412, "Supplied fingerprint does not match current metadata fingerprint.")
        self.metadata.clear()
        self.metadata.update({item["key"]: item["value"] for item in items})
        self.metadata_changed()
        path = f"projects/{self._project}"
        return self._operations.start(request, "compute.projects.setCommonInstanceMetadata", path)

    async def _list_firewalls(self, request: web.Request) -> web.Response:
        return list_answer(request, "firewall", [self.firewalls[name] for name in sorted(self.firewalls)])

    async def _get_firewall(self, request: web.Request) -> web.Response:
        rule = self.firewalls.get(request.match_info["name"])
        if not rule:
            raise missing(request)
        return answer(rule)

    async def _insert_firewall(self, request: web.Request) -> web.Response:
        rule = await read_document(request, {"name": str, "network": str})
        name = name_in(rule)
        if name in self.firewalls:
            raise ComputeError(409, f"The resource '{relative(request.path)}/{name}' already exists")
        self.add(rule)
        return self._operations.start(request, "insert", f"{relative(request.path)}/{name}")

    async def _delete_firewall(self, request: web.Request) -> web.Response:
        if self.firewalls.pop(request.match_info["name"], None) is None:
            raise missing(request)
        return self._operations.start(request, "delete", relative(request.path))

    async def _get_network(self, request: web.Request) -> web.Response:
        if request.match_info["network"] != _DEFAULT:
            raise missing(request)
        order = "BEFORE_CLASSIC_FIREWALL" if self.policies_first else "AFTER_CLASSIC_FIREWALL"
        document = {"kind": "compute#network", "id": "1", "name": _DEFAULT, "selfLink": self._network}
        return answer({**document, "autoCreateSubnetworks": True, "networkFirewallPolicyEnforcementOrder": order})

    async def _of_network(self, request: web.Request) -> web.Response:
        policies = [policy for policy in self.policies if policy["type"] != _REGIONAL]
        return self._effective(request, request.match_info["network"], policies)

    async def _of_region(self, request: web.Request) -> web.Response:
        return self._effective(request, last_part(request.query.get("network", "")), self.policies)

    def _effective(self, request: web.Request, network: str, policies: list[dict[str, Any]]) -> web.Response:
        if network != _DEFAULT:
            raise missing(request)
        rules = [rule for _, rule in sorted(self.firewalls.items()) if last_part(rule["network"]) == network]
        return answer({"firewallPolicys": policies, "firewalls": rules})

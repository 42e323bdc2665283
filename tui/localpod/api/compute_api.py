"""The local pod's Compute Engine API, as far as checks use it: firewalls and instances.

REST paths and fields are those of the Compute Engine API v1.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web

LOOPBACK = "127.0.0.0/8"
"""The range of the workers' addresses."""
_PROJECT = "/compute/v1/projects/{project}"
_FIREWALLS = _PROJECT + "/global/firewalls"
_NETWORK = _PROJECT + "/global/networks/{network}"
_OF_A_REGION = "NETWORK_REGIONAL"
_JSON = "application/json"
_REQUIRED = "Required '{permission}' permission for 'projects/{project}'"

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

Instances = Callable[[], Iterable[tuple[str, str]]]
"""Return the pod's machines: name and internal address of each."""


class ComputeService:
    """Firewall rules and instances of a pod. For tests, requests that need a permission in `denied` are refused."""

    def __init__(self, instances: Instances, *, zone: str, network: str = "default") -> None:
        self._instances = instances
        self._zone = zone
        self._network = network
        self.denied: set[str] = set()
        self.metadata: dict[str, str] = {}
        """The project's common instance metadata."""
        self.firewalls: dict[str, dict[str, Any]] = {}
        self.policies: list[dict[str, Any]] = []
        """The network's firewall policies, in the JSON of the API's effective firewalls."""
        self.policies_first = False
        """Whether the network's policies are evaluated before its rules."""
        for rule in _DEFAULTS:
            self.add(rule)

    def add(self, rule: dict[str, Any]) -> None:
        """Add a firewall rule in the API's JSON, or replace the one of its name."""
        network = f"https://www.googleapis.com/compute/v1/projects/local/global/networks/{self._network}"
        defaults = {"kind": "compute#firewall", "network": network, "direction": "INGRESS", "priority": 1000}
        self.firewalls[rule["name"]] = {**defaults, "disabled": False, **rule}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that the pod's REST port serves."""
        return [
            web.get(_PROJECT, self._guard("compute.projects.get", self._get_project)),
            web.get(_FIREWALLS, self._guard("compute.firewalls.list", self._list_firewalls)),
            web.post(_FIREWALLS, self._guard("compute.firewalls.create", self._insert_firewall)),
            web.get(_FIREWALLS + "/{name}", self._guard("compute.firewalls.get", self._get_firewall)),
            web.delete(_FIREWALLS + "/{name}", self._guard("compute.firewalls.delete", self._delete_firewall)),
            web.get(_NETWORK, self._guard("compute.networks.get", self._get_network)),
            web.get(
                _NETWORK + "/getEffectiveFirewalls",
                self._guard("compute.networks.getEffectiveFirewalls", self._of_network),
            ),
            web.get(
                _PROJECT + "/regions/{region}/firewallPolicies/getEffectiveFirewalls",
                self._guard("compute.networks.getRegionEffectiveFirewalls", self._of_region),
            ),
            web.get(
                _PROJECT + "/zones/{zone}/instances", self._guard("compute.instances.list", self._list_instances)
            ),
        ]

    def _guard(
        self, permission: str, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if permission not in self.denied:
                return await handler(request)
            project = request.match_info["project"]
            return _error(403, "forbidden", _REQUIRED.format(permission=permission, project=project))

        return handle

    async def _get_project(self, request: web.Request) -> web.Response:
        items = [{"key": key, "value": value} for key, value in sorted(self.metadata.items())]
        metadata = {"kind": "compute#metadata", **({"items": items} if items else {})}
        name = request.match_info["project"]
        return _answer({"kind": "compute#project", "name": name, "commonInstanceMetadata": metadata})

    async def _list_firewalls(self, request: web.Request) -> web.Response:
        """Return one page of the rules; a page token is the index of the page's first rule."""
        size = int(request.query.get("maxResults", "500"))
        first = int(request.query.get("pageToken") or 0)
        names = sorted(self.firewalls)
        answer: dict[str, Any] = {"kind": "compute#firewallList"}
        if page := [self.firewalls[name] for name in names[first : first + size]]:
            answer["items"] = page
        if first + size < len(names):
            answer["nextPageToken"] = str(first + size)
        return _answer(answer)

    async def _get_firewall(self, request: web.Request) -> web.Response:
        found = self.firewalls.get(request.match_info["name"])
        return _answer(found) if found else _missing(request)

    async def _insert_firewall(self, request: web.Request) -> web.Response:
        try:
            rule = json.loads(await request.read())
            name = rule["name"]
        except (ValueError, KeyError, TypeError):
            return _error(400, "invalid", "Invalid value for field 'resource.name'")
        if name in self.firewalls:
            return _error(409, "alreadyExists", f"The resource '{request.path[12:]}/{name}' already exists")
        self.add(rule)
        return _done("insert", name)

    async def _delete_firewall(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.firewalls.pop(name, None) is None:
            return _missing(request)
        return _done("delete", name)

    async def _get_network(self, request: web.Request) -> web.Response:
        if request.match_info["network"] != self._network:
            return _missing(request)
        order = "BEFORE_CLASSIC_FIREWALL" if self.policies_first else "AFTER_CLASSIC_FIREWALL"
        document = {"kind": "compute#network", "name": self._network, "networkFirewallPolicyEnforcementOrder": order}
        return _answer(document)

    async def _of_network(self, request: web.Request) -> web.Response:
        policies = [policy for policy in self.policies if policy["type"] != _OF_A_REGION]
        return self._effective(request, request.match_info["network"], policies)

    async def _of_region(self, request: web.Request) -> web.Response:
        return self._effective(request, request.query.get("network", "").rpartition("/")[2], self.policies)

    def _effective(self, request: web.Request, network: str, policies: list[dict[str, Any]]) -> web.Response:
        if network != self._network:
            return _missing(request)
        rules = [rule for _, rule in sorted(self.firewalls.items()) if rule["network"].rpartition("/")[2] == network]
        return _answer({"firewallPolicys": policies, "firewalls": rules})

    async def _list_instances(self, request: web.Request) -> web.Response:
        mine = request.match_info["zone"] == self._zone
        items = [
            {"name": name, "status": "RUNNING", "networkInterfaces": [{"networkIP": address}]}
            for name, address in (self._instances() if mine else ())
        ]
        return _answer({"kind": "compute#instanceList", **({"items": items} if items else {})})


def _answer(document: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(document) + "\n", status=status, content_type=_JSON)


def _done(kind: str, name: str) -> web.Response:
    """Return an operation that is done already."""
    return _answer(
        {"kind": "compute#operation", "name": f"operation-{kind}-{name}", "status": "DONE", "progress": 100}
    )


def _missing(request: web.Request) -> web.Response:
    return _error(404, "notFound", f"The resource '{request.path[12:]}' was not found")


def _error(status: int, reason: str, message: str) -> web.Response:
    """Return an error in the form of Google's JSON APIs."""
    errors = [{"domain": "global", "reason": reason, "message": message}]
    return _answer({"error": {"code": status, "message": message, "errors": errors}}, status)

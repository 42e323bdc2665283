"""The local pod's Compute Engine API, as far as tpu-tui uses it: firewalls, instances, disks and images.

REST paths and fields are those of the Compute Engine API v1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web

from tui.localpod.api.compute_answers import PROJECT, ComputeError, answer, missing, page_of, read_document
from tui.localpod.api.disk_routes import DiskRoutes
from tui.localpod.api.faults import ServiceFaults
from tui.localpod.api.resources.disks import DisksAndImagesStore

LOOPBACK = "127.0.0.0/8"
"""The range of the workers' addresses."""
_FIREWALLS = PROJECT + "/global/firewalls"
_NETWORK = PROJECT + "/global/networks/{network}"
_OF_A_REGION = "NETWORK_REGIONAL"
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
    """Firewall rules, instances, disks and images of a pod.

    For tests, requests that need a permission in `denied` are refused, and `faults` can be set.
    """

    def __init__(
        self,
        instances: Instances,
        *,
        zone: str,
        network: str = "default",
        store: DisksAndImagesStore | None = None,
    ) -> None:
        self._instances = instances
        self._zone = zone
        self._network = network
        self.denied: set[str] = set()
        self.faults = ServiceFaults()
        self.store = store or DisksAndImagesStore("local")
        self._disks = DiskRoutes(self.store, self.faults, lambda: [zone])
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
            *self._disks.routes(self._guard),
            web.get(PROJECT, self._guard("compute.projects.get", self._get_project)),
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
                PROJECT + "/regions/{region}/firewallPolicies/getEffectiveFirewalls",
                self._guard("compute.networks.getRegionEffectiveFirewalls", self._of_region),
            ),
            web.get(PROJECT + "/zones/{zone}/instances", self._guard("compute.instances.list", self._list_instances)),
        ]

    async def close(self) -> None:
        """Cancel operations that are in progress."""
        await self._disks.close()

    def _guard(
        self, permission: str, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            await self.faults.delay()
            self.faults.check_rate()
            self.faults.check_page_token(request.query.get("pageToken", ""))
            try:
                if permission in self.denied:
                    project = request.match_info["project"]
                    raise ComputeError(403, _REQUIRED.format(permission=permission, project=project))
                return await handler(request)
            except ComputeError as error:
                return error.to_response()

        return handle

    async def _get_project(self, request: web.Request) -> web.Response:
        items = [{"key": key, "value": value} for key, value in sorted(self.metadata.items())]
        metadata = {"kind": "compute#metadata", **({"items": items} if items else {})}
        name = request.match_info["project"]
        return answer({"kind": "compute#project", "name": name, "commonInstanceMetadata": metadata})

    async def _list_firewalls(self, request: web.Request) -> web.Response:
        """Return one page of the rules."""
        page, more = page_of(request, [self.firewalls[name] for name in sorted(self.firewalls)])
        return answer({"kind": "compute#firewallList", **({"items": page} if page else {}), **more})

    async def _get_firewall(self, request: web.Request) -> web.Response:
        found = self.firewalls.get(request.match_info["name"])
        if not found:
            raise missing(request)
        return answer(found)

    async def _insert_firewall(self, request: web.Request) -> web.Response:
        rule = await read_document(request)
        name = rule.get("name")
        if not isinstance(name, str):
            raise ComputeError(400, "Invalid value for field 'resource.name'")
        if name in self.firewalls:
            raise ComputeError(409, f"The resource '{request.path[12:]}/{name}' already exists")
        self.add(rule)
        return _done("insert", name)

    async def _delete_firewall(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.firewalls.pop(name, None) is None:
            raise missing(request)
        return _done("delete", name)

    async def _get_network(self, request: web.Request) -> web.Response:
        if request.match_info["network"] != self._network:
            raise missing(request)
        order = "BEFORE_CLASSIC_FIREWALL" if self.policies_first else "AFTER_CLASSIC_FIREWALL"
        document = {"kind": "compute#network", "name": self._network, "networkFirewallPolicyEnforcementOrder": order}
        return answer(document)

    async def _of_network(self, request: web.Request) -> web.Response:
        policies = [policy for policy in self.policies if policy["type"] != _OF_A_REGION]
        return self._effective(request, request.match_info["network"], policies)

    async def _of_region(self, request: web.Request) -> web.Response:
        return self._effective(request, request.query.get("network", "").rpartition("/")[2], self.policies)

    def _effective(self, request: web.Request, network: str, policies: list[dict[str, Any]]) -> web.Response:
        if network != self._network:
            raise missing(request)
        rules = [rule for _, rule in sorted(self.firewalls.items()) if rule["network"].rpartition("/")[2] == network]
        return answer({"firewallPolicys": policies, "firewalls": rules})

    async def _list_instances(self, request: web.Request) -> web.Response:
        mine = request.match_info["zone"] == self._zone
        items = [
            {"name": name, "status": "RUNNING", "networkInterfaces": [{"networkIP": address}]}
            for name, address in (self._instances() if mine else ())
        ]
        return answer({"kind": "compute#instanceList", **({"items": items} if items else {})})


def _done(kind: str, name: str) -> web.Response:
    """Return an operation that is done already."""
    return answer(
        {"kind": "compute#operation", "name": f"operation-{kind}-{name}", "status": "DONE", "progress": 100}
    )

"""Reads the firewall rules in force for a network, policies included, from the Compute Engine API.

Each reading runs in its own thread, which imports Google's libraries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from tui.cloud.compute.compute_client import ComputeClient
from tui.cloud.compute.firewall_messages import depends_on_order, effective_rules, vpc_rules
from tui.cloud.compute.firewall_types import Ruleset
from tui.errors import CloudError, TpuTuiError
from tui.pod.api_paths import last_part
from tui.settings import Settings

Answer = TypeVar("Answer")

REGION_PERMISSION = "compute.networks.getRegionEffectiveFirewalls"
NETWORK_PERMISSION = "compute.networks.getEffectiveFirewalls"
ORDER_PERMISSION = "compute.networks.get"
RULES_PERMISSION = "compute.firewalls.list"
ROLE = "roles/compute.networkViewer"
"""Includes all four permissions."""
_WHAT = "firewall rules cannot be read"
_URL = "https://www.googleapis.com/compute/v1/"
_POLICIES_FIRST = "BEFORE_CLASSIC_FIREWALL"


class FirewallRules:
    """The project's firewall rules; a local pod has its own, without credentials."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._settings = settings
        self._patience = patience

    async def read(self, network: str | None, project: str | None = None, region: str | None = None) -> Ruleset:
        """Return the rules now in force for a network (its name or any form of its address; None: `default`).

        A network of another project is read there. Without permission to read policies, the result has the VPC
        firewall rules and the gap. Raises CloudError without permission to read those either.
        """
        return await asyncio.to_thread(self._read, network or "default", project, region)

    def _read(self, network: str, project: str | None, region: str | None) -> Ruleset:
        with closing(ComputeClient(self._settings, patience=self._patience)) as compute:
            owner = _project_of(network) or project or compute.project
            return _FirewallQuery(compute, owner, last_part(network)).read(region)


class _FirewallQuery:
    """The requests about one network."""

    def __init__(self, compute: ComputeClient, owner: str, network: str) -> None:
        self._compute = compute
        self._owner = owner
        self._network = f"{owner}/global/networks/{network}"

    def read(self, region: str | None) -> Ruleset:
        """Return the effective rules, else the VPC firewall rules. Raises CloudError."""
        permission = REGION_PERMISSION if region else NETWORK_PERMISSION
        answer = self._get_or_error(lambda: self._effective(region), permission)
        if not isinstance(answer, CloudError):
            return self._ruleset(answer)
        path = f"{self._owner}/global/firewalls"
        listed = self._get_or_error(lambda: self._compute.items(path), RULES_PERMISSION)
        if isinstance(listed, CloudError):
            why = f"{listed.why}; {permission} would be enough"
            raise CloudError(listed.what, why=why, remedy=listed.remedy)
        gap = _gap(answer, "policies of the organisation and the network")
        return Ruleset(tuple(vpc_rules(listed, self._network)), (gap,))

    def _effective(self, region: str | None) -> dict[str, Any]:
        if region is None:
            return self._compute.get(f"{self._network}/getEffectiveFirewalls")
        path = f"{self._owner}/regions/{region}/firewallPolicies/getEffectiveFirewalls"
        return self._compute.get(path, network=f"{_URL}projects/{self._network}")

    def _ruleset(self, message: dict[str, Any]) -> Ruleset:
        gaps: list[CloudError] = []
        vpc_first = True
        if depends_on_order(message):
            network = self._get_or_error(lambda: self._compute.get(self._network), ORDER_PERMISSION)
            if isinstance(network, CloudError):
                gaps.append(_gap(network, "the order of network policies and VPC rules (assumed: VPC rules first)"))
            else:
                vpc_first = network.get("networkFirewallPolicyEnforcementOrder") != _POLICIES_FIRST
        return Ruleset(effective_rules(message, f"projects/{self._network}", vpc_first=vpc_first), tuple(gaps))

    def _get_or_error(self, get: Callable[[], Answer], permission: str) -> Answer | CloudError:
        """Make a request; return the error if it is not permitted. Raises CloudError for any other failure."""
        from google.api_core.exceptions import Forbidden, NotFound

        try:
            return self._compute.ask(_WHAT, get, role=ROLE, permission=permission, project=self._owner)
        except TpuTuiError as error:
            explained = CloudError(error.what, why=error.why, remedy=error.remedy)
            if isinstance(error.__cause__, (Forbidden, NotFound)):  # a stand-in for Google's API may lack the method
                return explained
            raise explained from error.__cause__


def _gap(error: CloudError, subject: str) -> CloudError:
    return CloudError(f"{subject} cannot be read", why=error.why, remedy=error.remedy)


def _project_of(network: str) -> str | None:
    """Return the project in a network's address: a shared VPC belongs to another project."""
    _, separator, rest = network.partition("projects/")
    return rest.partition("/")[0] if separator else None

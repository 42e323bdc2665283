"""The firewall rules that hold for a network, policies of its organisation included: the Compute Engine API's.

Each reading runs in a thread of its own. Google's libraries are imported when asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tui.cloud.compute.firewall_messages import needs_order, rules_of, rules_with_policies
from tui.cloud.compute.firewall_types import Ruleset
from tui.errors import CloudError
from tui.settings import Settings

if TYPE_CHECKING:
    from tui.cloud.compute.compute_client import ComputeClient

Answer = TypeVar("Answer")

RULES_PERMISSION = "compute.firewalls.list"
POLICIES_PERMISSION = "compute.networks.getEffectiveFirewalls"
REGION_PERMISSION = "compute.networks.getRegionEffectiveFirewalls"
ORDER_PERMISSION = "compute.networks.get"
ROLE = "roles/compute.networkViewer"
"""Holds all four."""
PATIENCE_SECONDS = 15.0
"""How long one request is repeated while the service is unavailable."""
LOCAL_PATIENCE_SECONDS = 4.0
_SERVICE = "compute.googleapis.com"
_WHAT = "firewall rules cannot be read"
_URL = "https://www.googleapis.com/compute/v1/"
_POLICIES_FIRST = "BEFORE_CLASSIC_FIREWALL"


class FirewallRules:
    """The project's firewall rules; on a local pod its own, without credentials."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._settings = settings
        local = "compute" in settings.endpoints
        self._patience = patience or (LOCAL_PATIENCE_SECONDS if local else PATIENCE_SECONDS)

    async def read(self, network: str | None, project: str | None = None, region: str | None = None) -> Ruleset:
        """The rules of a network (its name or any form of its address; None: `default`), as they are now.

        A network of another project is asked for there. Where policies may not be read, the VPC's rules alone are
        told, with the gap. Raises CloudError where those may not either.
        """
        return await asyncio.to_thread(self._read, network or "default", project, region)

    def _read(self, network: str, project: str | None, region: str | None) -> Ruleset:
        from tui.cloud.compute.compute_client import ComputeClient

        with ComputeClient(self._settings) as compute:
            owner = _project_of(network) or project or compute.project
            return _read(_FirewallQuery(compute, self._patience, owner, network.rpartition("/")[2]), region)


def _read(asking: _FirewallQuery, region: str | None) -> Ruleset:
    refused: list[CloudError] = []
    questions: list[tuple[str, Callable[[], Any]]] = [
        (POLICIES_PERMISSION, asking.of_network),
        (RULES_PERMISSION, asking.listed),
    ]
    if region:
        questions.insert(0, (REGION_PERMISSION, asking.of_region(region)))
    for permission, ask in questions:
        found = asking.answer_or_refusal(ask, permission)
        if not isinstance(found, CloudError):
            return _ruleset(asking, found, refused)
        refused.append(found)
    raise _nothing(refused)


def _ruleset(
    asking: _FirewallQuery, found: dict[str, Any] | list[dict[str, Any]], refused: list[CloudError]
) -> Ruleset:
    if isinstance(found, list):
        gap = _gap(refused[-1], "policies of the organisation and the network")
        return Ruleset(rules_of(found, asking.network), (gap,))
    gaps = [_gap(refused[-1], "policies of the region")] if refused else []
    vpc_first = True
    if needs_order(found):
        told = asking.answer_or_refusal(asking.order, ORDER_PERMISSION)
        if isinstance(told, CloudError):
            gaps.append(_gap(told, "whether network policies come before the rules (taken as usual: after)"))
        else:
            vpc_first = told.get("networkFirewallPolicyEnforcementOrder") != _POLICIES_FIRST
    return Ruleset(rules_with_policies(found, f"projects/{asking.path}", vpc_first), tuple(gaps))


class _FirewallQuery:
    """The questions about one network; `answer_or_refusal` asks one."""

    def __init__(self, compute: ComputeClient, patience: float, owner: str, network: str) -> None:
        self._compute = compute
        self._patience = patience
        self._owner = owner
        self.network = network
        self.path = f"{owner}/global/networks/{network}"

    def of_region(self, region: str) -> Callable[[], dict[str, Any]]:
        """All that holds for the network in a region: its rules, and the policies of every kind."""
        path = f"{self._owner}/regions/{region}/firewallPolicies/getEffectiveFirewalls"
        return lambda: self._get(path, network=f"{_URL}projects/{self.path}")

    def of_network(self) -> dict[str, Any]:
        """The same without the policies of regions."""
        return self._get(f"{self.path}/getEffectiveFirewalls")

    def order(self) -> dict[str, Any]:
        """The network itself, which says whether its policies come before its rules."""
        return self._get(self.path)

    def listed(self) -> list[dict[str, Any]]:
        """The project's VPC firewall rules, page by page."""
        return list(self._compute.items(f"{self._owner}/global/firewalls", patience=self._patience))

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        return self._compute.get(path, patience=self._patience, **query)

    def answer_or_refusal(self, ask: Callable[[], Answer], permission: str) -> Answer | CloudError:
        """Ask, again while the service is unavailable. A refusal comes back: another question may be allowed.

        Raises CloudError for all else.
        """
        from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound
        from google.api_core.retry import Retry
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        started = time.monotonic()
        try:
            answer: Answer = Retry(initial=0.2, maximum=4.0, timeout=self._patience)(ask)()
        except (Forbidden, NotFound) as error:  # NotFound: what stands in for Google's API may not know the question
            return self._explained(error, permission, time.monotonic() - started)
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise self._explained(error, permission, time.monotonic() - started) from error
        return answer

    def _explained(self, error: Exception, permission: str, tried: float) -> CloudError:
        from google.api_core.exceptions import Forbidden, RetryError
        from requests.exceptions import RequestException

        from tui.cloud import api_errors

        endpoint = self._compute.endpoint
        cause = error.cause if isinstance(error, RetryError) else error
        if isinstance(cause, RequestException):
            where = f" at {endpoint}" if endpoint else ""
            return CloudError(_WHAT, why=f"Compute Engine{where} is down or out of reach, tried for {tried:.0f} s")
        asked = api_errors.ApiRequest(_WHAT, self._owner, _SERVICE, "the Compute Engine API", ROLE, endpoint)
        told = api_errors.explain(error, asked, tried)
        missing = f" (it takes {permission})" if isinstance(cause, Forbidden) and permission not in told.why else ""
        return CloudError(told.what, why=told.why + missing, remedy=told.remedy)


def _gap(error: CloudError, what: str) -> CloudError:
    return CloudError(f"{what} cannot be read", why=error.why, remedy=error.remedy)


def _nothing(refused: list[CloudError]) -> CloudError:
    """The last refusal, which any of the permissions would have spared."""
    last = refused[-1]
    why = f"{last.why}; {POLICIES_PERMISSION} would do too" if len(refused) > 1 else last.why
    return CloudError(last.what, why=why, remedy=last.remedy)


def _project_of(network: str) -> str | None:
    """The project in a network's address: a shared VPC belongs to another one."""
    _, found, rest = network.partition("projects/")
    return rest.partition("/")[0] if found else None

"""The firewall rules that hold for a network, policies of its organisation included: the Compute Engine API's.

Each reading runs in a thread of its own. Google's libraries are imported when asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tui.errors import CloudError
from tui.settings import Settings

if TYPE_CHECKING:
    from tui.cloud.compute.compute_client import Compute

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
DEFAULT_PRIORITY = 1000
_SERVICE = "compute.googleapis.com"
_WHAT = "firewall rules cannot be read"
_URL = "https://www.googleapis.com/compute/v1/"
_POLICIES_FIRST = "BEFORE_CLASSIC_FIREWALL"


@dataclass(frozen=True)
class Traffic:
    """What a rule is about: a protocol's name, number or `all`, and ports (`22`, `8470-8477`); no ports: every."""

    protocol: str
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A firewall policy that rules belong to.

    `kind` is `organisation` (a hierarchical one, of the organisation or a folder), `network`, `regional` or `system`.
    `name` is what gcloud calls it by. `after_vpc` says that VPC firewall rules are asked before it.
    """

    name: str
    kind: str
    after_vpc: bool = False


@dataclass(frozen=True)
class Rule:
    """A firewall rule as the Compute Engine API has it; empty ranges, tags and accounts restrict nothing.

    Rules of a lower `level` are asked first; within one the lower priority number. One that `goes_on` neither allows
    nor denies: what it means is left to the next level. VPC firewall rules have no policy.
    """

    name: str
    allows: bool
    traffic: tuple[Traffic, ...]
    direction: str = "INGRESS"
    priority: int = DEFAULT_PRIORITY
    source_ranges: tuple[str, ...] = ()
    destination_ranges: tuple[str, ...] = ()
    source_tags: tuple[str, ...] = ()
    target_tags: tuple[str, ...] = ()
    source_accounts: tuple[str, ...] = ()
    target_accounts: tuple[str, ...] = ()
    disabled: bool = False
    level: int = 0
    policy: Policy | None = None
    goes_on: bool = False
    further: tuple[str, ...] = ()
    """What else it may mean at the other end, beside the ranges, and whose members are not known: `secure tags`, …"""
    only: tuple[str, ...] = ()
    """What it is restricted to besides, where whom that means is not known."""


@dataclass(frozen=True)
class Ruleset:
    """The rules that hold for a network, and what could not be read of them."""

    rules: tuple[Rule, ...]
    gaps: tuple[CloudError, ...] = ()


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
        from tui.cloud.compute.compute_client import Compute

        with Compute(self._settings) as compute:
            owner = _project_of(network) or project or compute.project
            return _read(_Asking(compute, self._patience, owner, network.rpartition("/")[2]), region)


def _read(asking: _Asking, region: str | None) -> Ruleset:
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


def _ruleset(asking: _Asking, found: dict[str, Any] | list[dict[str, Any]], refused: list[CloudError]) -> Ruleset:
    from tui.cloud.compute.firewall_messages import needs_order, rules_of, rules_with_policies

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


class _Asking:
    """The questions about one network; `answer_or_refusal` asks one."""

    def __init__(self, compute: Compute, patience: float, owner: str, network: str) -> None:
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
        asked = api_errors.Asked(_WHAT, self._owner, _SERVICE, "the Compute Engine API", ROLE, endpoint)
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

"""The firewall rules that hold for a network, policies of its organisation included, through google-cloud-compute.

Its clients are synchronous, so each reading runs in a thread of its own. Google's libraries are imported when asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tui.errors import CloudError
from tui.settings import Settings

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
        self._endpoint = settings.endpoints.get("compute", "")
        self._patience = patience or (LOCAL_PATIENCE_SECONDS if self._endpoint else PATIENCE_SECONDS)
        self._project = settings.project

    async def read(self, network: str | None, project: str | None = None, region: str | None = None) -> Ruleset:
        """The rules of a network (its name or any form of its address; None: `default`), as they are now.

        A network of another project is asked for there. Where policies may not be read, the VPC's rules alone are
        told, with the gap. Raises CloudError where those may not either, or the client is not installed.
        """
        return await asyncio.to_thread(self._read, network or "default", project, region)

    def _read(self, network: str, project: str | None, region: str | None) -> Ruleset:
        asking = _Asking(self._patience, self._endpoint, project or self._project)
        owner = _project_of(network) or asking.project
        name = network.rpartition("/")[2]
        refused: list[CloudError] = []
        for permission, ask in (
            (REGION_PERMISSION, asking.of_region(owner, name, region) if region else None),
            (POLICIES_PERMISSION, asking.of_network(owner, name)),
            (RULES_PERMISSION, asking.listed(owner)),
        ):
            found = asking.answer_or_refusal(ask, owner, permission) if ask else None
            if isinstance(found, CloudError):
                refused.append(found)
            elif found is not None:
                return self._ruleset(asking, found, owner, name, refused)
        raise _nothing(refused)

    def _ruleset(self, asking: _Asking, found: Any, owner: str, name: str, refused: list[CloudError]) -> Ruleset:
        from tui.cloud.firewall_messages import needs_order, rules_of, rules_with_policies

        if not hasattr(found, "firewall_policys"):
            return Ruleset(
                rules_of(found, name), (_gap(refused[-1], "policies of the organisation and the network"),)
            )
        gaps = [_gap(refused[-1], "policies of the region")] if refused else []
        vpc_first = True
        if needs_order(found):
            told = asking.answer_or_refusal(asking.order(owner, name), owner, ORDER_PERMISSION)
            if isinstance(told, CloudError):
                gaps.append(_gap(told, "whether network policies come before the rules (taken as usual: after)"))
            else:
                vpc_first = told.network_firewall_policy_enforcement_order != _POLICIES_FIRST
        return Ruleset(rules_with_policies(found, f"projects/{owner}/global/networks/{name}", vpc_first), tuple(gaps))


class _Asking:
    """Google's clients for one reading; a method makes a question, `answer` asks it."""

    def __init__(self, patience: float, endpoint: str, project: str | None) -> None:
        from google.api_core.exceptions import Forbidden, NotFound
        from google.auth.credentials import AnonymousCredentials

        from tui.cloud.credentials import find_credentials

        self._refusals = (Forbidden, NotFound)
        """NotFound too: an API that stands in for Google's may not know the question."""
        self._compute = _library()
        self._patience = patience
        self._endpoint = endpoint
        if endpoint:
            self._options: dict[str, Any] = {
                "credentials": AnonymousCredentials(),  # type: ignore[no-untyped-call]
                "client_options": {"api_endpoint": endpoint},
            }
            self.project = project or "local"
        else:
            found = find_credentials()
            self._options = {"credentials": found.credentials}
            self.project = project or found.project or ""

    def of_region(self, owner: str, name: str, region: str) -> Callable[[], Any]:
        """All that holds for a network in a region: its rules, and the policies of every kind."""
        address = f"{_URL}projects/{owner}/global/networks/{name}"
        clients = self._compute.RegionNetworkFirewallPoliciesClient
        return self._call(clients, "get_effective_firewalls", project=owner, region=region, network=address)

    def of_network(self, owner: str, name: str) -> Callable[[], Any]:
        """The same without the policies of regions."""
        return self._call(self._compute.NetworksClient, "get_effective_firewalls", project=owner, network=name)

    def order(self, owner: str, name: str) -> Callable[[], Any]:
        """The network itself, which says whether its policies come before its rules."""
        return self._call(self._compute.NetworksClient, "get", project=owner, network=name)

    def listed(self, owner: str) -> Callable[[], Any]:
        """The project's VPC firewall rules, page by page."""
        return self._call(self._compute.FirewallsClient, "list", wrap=list, project=owner)

    def _call(
        self, clients: Any, method: str, *, wrap: Callable[[Any], Any] = lambda found: found, **words: str
    ) -> Callable[[], Any]:
        from google.api_core.retry import Retry

        def ask() -> Any:
            retry = Retry(initial=0.2, maximum=4.0, timeout=self._patience)
            with clients(**self._options) as client:
                return wrap(getattr(client, method)(**words, retry=retry, timeout=self._patience))

        return ask

    def answer(self, ask: Callable[[], Answer], owner: str, permission: str) -> Answer:
        """Ask. Raises CloudError, whose cause is the client's own."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        started = time.monotonic()
        try:
            return ask()
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise self._explained(error, owner, permission, time.monotonic() - started) from error

    def answer_or_refusal(self, ask: Callable[[], Answer], owner: str, permission: str) -> Answer | CloudError:
        """As `answer`, but a refusal comes back: another question may be allowed."""
        try:
            return self.answer(ask, owner, permission)
        except CloudError as error:
            if isinstance(error.__cause__, self._refusals):
                return error
            raise

    def _explained(self, error: Exception, project: str, permission: str, tried: float) -> CloudError:
        from google.api_core.exceptions import Forbidden, RetryError
        from requests.exceptions import RequestException

        from tui.cloud import api_errors

        cause = error.cause if isinstance(error, RetryError) else error
        if isinstance(cause, RequestException):
            where = f" at {self._endpoint}" if self._endpoint else ""
            return CloudError(_WHAT, why=f"Compute Engine{where} is down or out of reach, tried for {tried:.0f} s")
        asked = api_errors.Asked(_WHAT, project, _SERVICE, "the Compute Engine API", ROLE, self._endpoint)
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


def _library() -> Any:
    from tui.cloud.credentials import silence_libraries

    silence_libraries()
    try:
        from google.cloud import compute_v1
    except ImportError:
        remedy = "pip install google-cloud-compute, next to tpu-tui; the probes need nothing of it"
        raise CloudError(_WHAT, why="google-cloud-compute is not installed", remedy=remedy) from None
    return compute_v1


def _project_of(network: str) -> str | None:
    """The project in a network's address: a shared VPC belongs to another one."""
    _, found, rest = network.partition("projects/")
    return rest.partition("/")[0] if found else None

"""The firewall rules of a network, read through google-cloud-compute where that is installed.

Its client is synchronous, so each call runs in a thread of its own. Google's libraries are imported when asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tui.errors import CloudError, TpuTuiError
from tui.settings import Settings

PERMISSION = "compute.firewalls.list"
ROLE = "roles/compute.networkViewer"
PATIENCE_SECONDS = 15.0
"""How long one request is repeated while the service is unavailable."""
LOCAL_PATIENCE_SECONDS = 4.0
DEFAULT_PRIORITY = 1000
_SERVICE = "compute.googleapis.com"
_WHAT = "firewall rules cannot be read"


@dataclass(frozen=True)
class Traffic:
    """What a rule is about: a protocol's name, number or `all`, and ports (`22`, `8470-8477`); no ports: every."""

    protocol: str
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A VPC firewall rule as the Compute Engine API has it; empty ranges, tags and accounts restrict nothing."""

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


class FirewallRules:
    """The project's firewall rules; on a local pod its own, without credentials."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._endpoint = settings.endpoints.get("compute", "")
        self._patience = patience or (LOCAL_PATIENCE_SECONDS if self._endpoint else PATIENCE_SECONDS)
        self._project = settings.project

    async def rules(self, network: str | None, project: str | None = None) -> tuple[Rule, ...]:
        """The rules of a network (its name or any form of its address; None: `default`), as they are now.

        A network of another project is asked for there. Raises CloudError, also where the client is not installed.
        """
        return await asyncio.to_thread(self._rules, network or "default", project)

    def _rules(self, network: str, project: str | None) -> tuple[Rule, ...]:
        started = time.monotonic()
        compute = _library()
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        asked_project = _project_of(network) or project or self._project or "local"
        try:
            with self._connect(compute) as client:
                found = client.list(project=asked_project, retry=self._retry(), timeout=self._patience)
                return rules_of(found, network)
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise self._explained(error, asked_project, time.monotonic() - started) from error

    def _connect(self, compute: Any) -> Any:
        from google.auth.credentials import AnonymousCredentials

        from tui.cloud.credentials import find_credentials

        if self._endpoint:
            return compute.FirewallsClient(
                credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
                client_options={"api_endpoint": self._endpoint},
            )
        found = find_credentials()
        self._project = self._project or found.project
        return compute.FirewallsClient(credentials=found.credentials)

    def _retry(self) -> Any:
        from google.api_core.retry import Retry

        return Retry(initial=0.2, maximum=4.0, timeout=self._patience)

    def _explained(self, error: Exception, project: str, tried: float) -> TpuTuiError:
        from google.api_core.exceptions import Forbidden, RetryError
        from requests.exceptions import RequestException

        from tui.cloud import api_errors

        cause = error.cause if isinstance(error, RetryError) else error
        if isinstance(cause, RequestException):
            where = f" at {self._endpoint}" if self._endpoint else ""
            return CloudError(_WHAT, why=f"Compute Engine{where} is down or out of reach, tried for {tried:.0f} s")
        asked = api_errors.Asked(_WHAT, project, _SERVICE, "the Compute Engine API", ROLE, self._endpoint)
        told = api_errors.explain(error, asked, tried)
        if isinstance(cause, Forbidden) and PERMISSION not in told.why:
            told.why += f" (it takes {PERMISSION})"
        return told


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


def rules_of(found: Iterable[Any], network: str) -> tuple[Rule, ...]:
    """The rules of one network among the API's messages."""
    name = network.rpartition("/")[2]
    return tuple(_rule(one) for one in found if one.network.rpartition("/")[2] == name)


def _rule(one: Any) -> Rule:
    entries = one.allowed or one.denied
    return Rule(
        name=one.name,
        allows=bool(one.allowed),
        traffic=tuple(Traffic(entry.I_p_protocol, tuple(entry.ports)) for entry in entries),
        direction=one.direction or "INGRESS",
        priority=one.priority if "priority" in one else DEFAULT_PRIORITY,
        source_ranges=tuple(one.source_ranges),
        destination_ranges=tuple(one.destination_ranges),
        source_tags=tuple(one.source_tags),
        target_tags=tuple(one.target_tags),
        source_accounts=tuple(one.source_service_accounts),
        target_accounts=tuple(one.target_service_accounts),
        disabled=one.disabled,
    )

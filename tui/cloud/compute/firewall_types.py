"""Firewall rules as the Compute Engine API defines them: rules, the policies they belong to, and their traffic."""

from __future__ import annotations

from dataclasses import dataclass

from tui.errors import CloudError

DEFAULT_PRIORITY = 1000


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
class FirewallRule:
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

    rules: tuple[FirewallRule, ...]
    gaps: tuple[CloudError, ...] = ()

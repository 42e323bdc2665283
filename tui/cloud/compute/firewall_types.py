"""Firewall rules of the Compute Engine API, reduced to TCP over IPv4."""

from __future__ import annotations

from dataclasses import dataclass

from tui.errors import CloudError

ALLOW, DENY, NEXT = "allow", "deny", "next"
"""What a rule does with the traffic it matches; NEXT leaves the decision to the following levels."""
ANY_PORT = ((0, 65535),)


@dataclass(frozen=True)
class FirewallRule:
    """An enabled rule about TCP; empty ranges, tags and accounts restrict nothing.

    Rules of a lower `level` are evaluated first; within a level, those with a lower priority number.
    """

    name: str
    action: str
    ports: tuple[tuple[int, int], ...] = ANY_PORT
    """Spans of ports, the first and the last one."""
    direction: str = "INGRESS"
    priority: int = 1000
    source_ranges: tuple[str, ...] = ()
    destination_ranges: tuple[str, ...] = ()
    source_tags: tuple[str, ...] = ()
    target_tags: tuple[str, ...] = ()
    source_accounts: tuple[str, ...] = ()
    target_accounts: tuple[str, ...] = ()
    level: int = 0
    policy: str = ""
    """The rule's policy, e.g. `organisation firewall policy base`; empty for a VPC firewall rule."""
    also: tuple[str, ...] = ()
    """Other criteria that the far end may match, whose members are unknown, e.g. `domain names`."""
    only: tuple[str, ...] = ()
    """Further conditions that cannot be evaluated here, e.g. `secure tags`."""


@dataclass(frozen=True)
class Ruleset:
    """The rules in force for a network, and the errors for those that could not be read."""

    rules: tuple[FirewallRule, ...]
    gaps: tuple[CloudError, ...] = ()

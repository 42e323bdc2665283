"""The Compute Engine API's firewall messages as one list of rules, in the order of evaluation.

Google Cloud documentation, "Policy and rule evaluation order": policies of the organisation and its folders, then
Google's own, then VPC firewall rules, then policies of the network, then those of the region; a network may put the
last two before the VPC firewall rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tui.cloud.compute.firewall_types import ALLOW, ANY_PORT, DENY, NEXT, FirewallRule
from tui.pod.api_paths import last_part

Message = Mapping[str, Any]

_KINDS = {
    "HIERARCHY": "organisation",
    "SYSTEM": "system",
    "SYSTEM_GLOBAL": "system",
    "SYSTEM_REGIONAL": "system",
    "NETWORK": "network",
    "NETWORK_REGIONAL": "regional",
}
_VPC = "vpc"
_ORDER = ("organisation", "system", _VPC, "network", "regional")
_ORDER_POLICIES_FIRST = ("organisation", "system", "network", "regional", _VPC)
_ACTIONS = {"allow": ALLOW, "apply_security_profile_group": ALLOW, "deny": DENY}
"""`apply_security_profile_group` sends traffic to an inspection, which drops malicious packets."""
_TCP = ("tcp", "6", "all")
_INSTANCES = ("", "INSTANCES")
"""Targets that are virtual machines; the others are load balancers."""
_ANY_NETWORK = ("", "UNSPECIFIED")
_UNKNOWN_MEMBERS = {
    "Fqdns": "domain names",
    "RegionCodes": "countries",
    "ThreatIntelligences": "threat lists",
    "AddressGroups": "address groups",
    "Networks": "networks",
    "SecureTags": "secure tags",
}
"""Criteria for one end of a connection whose members the API does not list."""


def depends_on_order(found: Message) -> bool:
    """Return whether there are both VPC firewall rules and network policies, whose order a network can change."""
    kinds = {_KINDS.get(policy.get("type", "")) for policy in found.get("firewallPolicys", ())}
    return bool(found.get("firewalls")) and not kinds.isdisjoint(("network", "regional"))


def effective_rules(found: Message, network: str, *, vpc_first: bool) -> tuple[FirewallRule, ...]:
    """Return the rules in a message with effective firewalls; `network` is `projects/…/global/networks/…`.

    The message has the policies of one kind in the order of evaluation.
    """
    levels: list[list[FirewallRule]] = []
    for kind in _ORDER if vpc_first else _ORDER_POLICIES_FIRST:
        if kind == _VPC:
            levels.append(vpc_rules(found.get("firewalls", ()), network))
        for policy in found.get("firewallPolicys", ()):
            if _KINDS.get(policy.get("type", "")) == kind:
                name = policy.get("shortName") or policy.get("displayName") or policy.get("name") or "?"
                rules = (
                    _policy_rule(rule, f"{kind} firewall policy {name}", network) for rule in policy.get("rules", ())
                )
                levels.append([rule for rule in rules if rule])
    return tuple(replace(rule, level=level) for level, rules in enumerate(levels) for rule in rules)


def vpc_rules(found: Iterable[Message], network: str) -> list[FirewallRule]:
    """Return the VPC firewall rules of one network."""
    name = last_part(network)
    rules = (_vpc_rule(rule) for rule in found if last_part(rule.get("network", "")) == name)
    return [rule for rule in rules if rule]


def _vpc_rule(rule: Message) -> FirewallRule | None:
    ports = _tcp_ports(rule.get("allowed") or rule.get("denied") or (), "IPProtocol")
    if rule.get("disabled") or not ports:
        return None
    return FirewallRule(
        name=rule["name"],
        action=ALLOW if rule.get("allowed") else DENY,
        ports=ports,
        direction=rule.get("direction") or "INGRESS",
        priority=int(rule.get("priority", 1000)),
        source_ranges=tuple(rule.get("sourceRanges", ())),
        destination_ranges=tuple(rule.get("destinationRanges", ())),
        source_tags=tuple(rule.get("sourceTags", ())),
        target_tags=tuple(rule.get("targetTags", ())),
        source_accounts=tuple(rule.get("sourceServiceAccounts", ())),
        target_accounts=tuple(rule.get("targetServiceAccounts", ())),
    )


def _policy_rule(rule: Message, policy: str, network: str) -> FirewallRule | None:
    """Return a policy's rule; None if it is disabled, or not about TCP, machines or this network."""
    match, priority = rule.get("match", {}), int(rule.get("priority", 0))
    ports = _tcp_ports(match.get("layer4Configs", ()), "ipProtocol")
    networks, tags = rule.get("targetResources"), rule.get("targetSecureTags")
    if rule.get("disabled") or not ports or rule.get("targetType", "") not in _INSTANCES:
        return None
    if (networks and not any(path.endswith(network) for path in networks)) or (tags and not _is_effective(tags)):
        return None
    ingress = rule.get("direction") != "EGRESS"
    far, near = ("src", "dest") if ingress else ("dest", "src")
    only = [*_network_kinds(match, far), *_unknown_members(match, near), *_network_kinds(match, near)]
    return FirewallRule(
        name=rule.get("ruleName") or f"rule {priority}",
        action=_ACTIONS.get(rule.get("action", ""), NEXT),
        ports=ports,
        direction="INGRESS" if ingress else "EGRESS",
        priority=priority,
        source_ranges=tuple(match.get("srcIpRanges", ())),
        destination_ranges=tuple(match.get("destIpRanges", ())),
        target_accounts=tuple(rule.get("targetServiceAccounts", ())),
        policy=policy,
        also=tuple(_unknown_members(match, far)),
        only=(*only, *(("secure tags",) if tags else ())),
    )


def _tcp_ports(entries: Iterable[Message], protocol: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of TCP ports in the entries; none if they are about other protocols."""
    spans: list[tuple[int, int]] = []
    for entry in entries:
        if entry.get(protocol, "").lower() in _TCP:
            ends = (text.partition("-") for text in entry.get("ports", ()))
            spans += [(int(first), int(last or first)) for first, _, last in ends] or ANY_PORT
    return tuple(spans)


def _is_effective(tags: Iterable[Message]) -> bool:
    return any(tag.get("state") != "INEFFECTIVE" for tag in tags)


def _unknown_members(match: Message, end: str) -> list[str]:
    named = [(text, match.get(f"{end}{name}")) for name, text in _UNKNOWN_MEMBERS.items()]
    return [text for text, values in named if values and (text != "secure tags" or _is_effective(values))]


def _network_kinds(match: Message, end: str) -> list[str]:
    kinds = (match.get(f"{end}Network{name}", "") for name in ("Type", "Context"))
    return [f"{kind.lower().replace('_', '-')} addresses" for kind in kinds if kind not in _ANY_NETWORK]

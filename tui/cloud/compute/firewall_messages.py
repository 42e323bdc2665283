"""What the Compute Engine API says of firewalls in its JSON, as rules of ours in the order in which they are asked.

VPC and hierarchical firewall policies (Google Cloud documentation, "Policy and rule evaluation order"): policies of
the organisation and its folders, then Google's own, then the VPC's rules, then policies of the network, then those of
the region; or both of the last before the VPC's rules, where the network says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tui.cloud.compute.firewall_types import DEFAULT_PRIORITY, FirewallRule, Policy, Traffic

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
_OF_A_NETWORK = ("network", "regional")
_ALLOWING = ("allow", "apply_security_profile_group")
"""The second lets traffic on to an inspection, which drops what is malicious."""
_MACHINES = ("", "INSTANCES")
"""Targets that are virtual machines; the others are load balancers."""
_INEFFECTIVE = "INEFFECTIVE"
_ANY_NETWORK = ("", "UNSPECIFIED")
_FURTHER = {
    "Fqdns": "domain names",
    "RegionCodes": "countries",
    "ThreatIntelligences": "threat lists",
    "AddressGroups": "address groups",
    "Networks": "networks",
}
"""Ways to name the other end whose members this API does not tell."""


Message = Mapping[str, Any]


def needs_order(found: Message) -> bool:
    """Whether it matters if network policies come before the VPC's rules: there are both."""
    kinds = {_kind(policy) for policy in found.get("firewallPolicys", ())}
    return bool(found.get("firewalls")) and not kinds.isdisjoint(_OF_A_NETWORK)


def rules_with_policies(found: Message, network: str, vpc_first: bool) -> tuple[FirewallRule, ...]:
    """The rules of an answer with effective firewalls; `network` is `projects/…/global/networks/…`.

    Policies of one kind stand in the answer in the order in which they are asked.
    """
    levels: list[tuple[FirewallRule, ...]] = []
    for kind in _ORDER if vpc_first else _ORDER_POLICIES_FIRST:
        if kind == _VPC:
            levels.append(rules_of(found.get("firewalls", ()), network))
            continue
        for policy in found.get("firewallPolicys", ()):
            if _kind(policy) == kind:
                told = Policy(_name(policy), kind, after_vpc=kind in _OF_A_NETWORK and vpc_first)
                levels.append(
                    tuple(_policy_rule(one, told) for one in policy.get("rules", ()) if _is_about(one, network))
                )
    return tuple(replace(rule, level=level) for level, rules in enumerate(levels) for rule in rules)


def _kind(policy: Message) -> str | None:
    return _KINDS.get(policy.get("type", ""))


def rules_of(found: Iterable[Message], network: str) -> tuple[FirewallRule, ...]:
    """The VPC firewall rules of one network among the API's messages."""
    name = network.rpartition("/")[2]
    return tuple(_rule(one) for one in found if one.get("network", "").rpartition("/")[2] == name)


def _rule(one: Message) -> FirewallRule:
    entries = one.get("allowed") or one.get("denied") or ()
    return FirewallRule(
        name=one["name"],
        allows=bool(one.get("allowed")),
        traffic=tuple(Traffic(entry.get("IPProtocol", ""), _all(entry, "ports")) for entry in entries),
        direction=one.get("direction") or "INGRESS",
        priority=one.get("priority", DEFAULT_PRIORITY),
        source_ranges=_all(one, "sourceRanges"),
        destination_ranges=_all(one, "destinationRanges"),
        source_tags=_all(one, "sourceTags"),
        target_tags=_all(one, "targetTags"),
        source_accounts=_all(one, "sourceServiceAccounts"),
        target_accounts=_all(one, "targetServiceAccounts"),
        disabled=bool(one.get("disabled")),
    )


def _all(message: Message, name: str) -> tuple[Any, ...]:
    """The values of a field that may be repeated, and that the API leaves out where it has none."""
    return tuple(message.get(name, ()))


def _name(policy: Message) -> str:
    """What people call it; a policy of an organisation has a number for its name."""
    return str(policy.get("shortName") or policy.get("displayName") or policy.get("name") or "?")


def _is_about(one: Message, network: str) -> bool:
    """Whether a policy's rule is about machines, and those of this network."""
    tags = _all(one, "targetSecureTags")
    if one.get("targetType", "") not in _MACHINES or (tags and not _effective(tags)):
        return False
    meant = _all(one, "targetResources")
    return not meant or any(address.endswith(network) for address in meant)


def _effective(tags: Iterable[Message]) -> bool:
    return any(tag.get("state") != _INEFFECTIVE for tag in tags)


def _policy_rule(one: Message, policy: Policy) -> FirewallRule:
    """A rule whose other end cannot be told in full says so in `further` and `only`."""
    match, action, priority = one.get("match", {}), one.get("action"), one.get("priority", 0)
    ingress = one.get("direction") != "EGRESS"
    further, only = _unknown(match, "src" if ingress else "dest")
    near_further, near_only = _unknown(match, "dest" if ingress else "src")
    layers = _all(match, "layer4Configs")
    return FirewallRule(
        name=one.get("ruleName") or f"rule {priority}",
        allows=action in _ALLOWING,
        traffic=tuple(Traffic(entry.get("ipProtocol", ""), _all(entry, "ports")) for entry in layers),
        direction="INGRESS" if ingress else "EGRESS",
        priority=priority,
        source_ranges=_all(match, "srcIpRanges"),
        destination_ranges=_all(match, "destIpRanges"),
        target_accounts=_all(one, "targetServiceAccounts"),
        disabled=bool(one.get("disabled")),
        policy=policy,
        goes_on=action not in (*_ALLOWING, "deny"),
        further=further,
        only=(*only, *near_further, *near_only, *(("secure tags",) if one.get("targetSecureTags") else ())),
    )


def _unknown(match: Message, end: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What widens one end beyond its ranges, and what narrows it, where neither's members are told."""
    further = [words for name, words in _FURTHER.items() if match.get(f"{end}{name}")]
    if end == "src" and _effective(_all(match, "srcSecureTags")):
        further.append("secure tags")
    kinds = (match.get(f"{end}Network{name}", "") for name in ("Type", "Context"))
    only = [f"{kind.lower().replace('_', '-')} addresses" for kind in kinds if kind not in _ANY_NETWORK]
    return tuple(further), tuple(only)

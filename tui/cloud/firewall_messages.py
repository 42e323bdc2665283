"""What the Compute Engine API says of firewalls, as rules of ours in the order in which they are asked.

VPC and hierarchical firewall policies (Google Cloud documentation, "Policy and rule evaluation order"): policies of
the organisation and its folders, then Google's own, then the VPC's rules, then policies of the network, then those of
the region; or both of the last before the VPC's rules, where the network says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tui.cloud.firewall_rules import DEFAULT_PRIORITY, Policy, Rule, Traffic

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
    "fqdns": "domain names",
    "region_codes": "countries",
    "threat_intelligences": "threat lists",
    "address_groups": "address groups",
    "networks": "networks",
}
"""Ways to name the other end whose members this API does not tell."""


def needs_order(found: Any) -> bool:
    """Whether it matters if network policies come before the VPC's rules: there are both."""
    kinds = {_KINDS.get(policy.type_) for policy in found.firewall_policys}
    return bool(found.firewalls) and not kinds.isdisjoint(_OF_A_NETWORK)


def rules_with_policies(found: Any, network: str, vpc_first: bool) -> tuple[Rule, ...]:
    """The rules of an answer with effective firewalls; `network` is `projects/…/global/networks/…`.

    Policies of one kind stand in the answer in the order in which they are asked.
    """
    levels: list[tuple[Rule, ...]] = []
    for kind in _ORDER if vpc_first else _ORDER_POLICIES_FIRST:
        if kind == _VPC:
            levels.append(rules_of(found.firewalls, network))
            continue
        for policy in found.firewall_policys:
            if _KINDS.get(policy.type_) == kind:
                told = Policy(_name(policy), kind, after_vpc=kind in _OF_A_NETWORK and vpc_first)
                levels.append(tuple(_policy_rule(one, told) for one in policy.rules if _is_about(one, network)))
    return tuple(replace(rule, level=level) for level, rules in enumerate(levels) for rule in rules)


def rules_of(found: Iterable[Any], network: str) -> tuple[Rule, ...]:
    """The VPC firewall rules of one network among the API's messages."""
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


def _name(policy: Any) -> str:
    """What people call it; a policy of an organisation has a number for its name."""
    return str(getattr(policy, "short_name", "") or policy.display_name or policy.name)


def _is_about(one: Any, network: str) -> bool:
    """Whether a policy's rule is about machines, and those of this network."""
    tags = list(one.target_secure_tags)
    if one.target_type not in _MACHINES or (tags and all(tag.state == _INEFFECTIVE for tag in tags)):
        return False
    meant = list(one.target_resources)
    return not meant or any(address.endswith(network) for address in meant)


def _policy_rule(one: Any, policy: Policy) -> Rule:
    """A rule whose other end cannot be told in full says so in `further` and `only`."""
    ingress = one.direction != "EGRESS"
    further, only = _unknown(one, "src" if ingress else "dest")
    near_further, near_only = _unknown(one, "dest" if ingress else "src")
    return Rule(
        name=one.rule_name or f"rule {one.priority}",
        allows=one.action in _ALLOWING,
        traffic=tuple(Traffic(entry.ip_protocol, tuple(entry.ports)) for entry in one.match.layer4_configs),
        direction="INGRESS" if ingress else "EGRESS",
        priority=one.priority,
        source_ranges=tuple(one.match.src_ip_ranges),
        destination_ranges=tuple(one.match.dest_ip_ranges),
        target_accounts=tuple(one.target_service_accounts),
        disabled=one.disabled,
        policy=policy,
        goes_on=one.action not in (*_ALLOWING, "deny"),
        further=further,
        only=(*only, *near_further, *near_only, *(("secure tags",) if one.target_secure_tags else ())),
    )


def _unknown(one: Any, end: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What widens one end beyond its ranges, and what narrows it, where neither's members are told."""
    match = one.match
    further = [words for name, words in _FURTHER.items() if getattr(match, f"{end}_{name}", ())]
    if end == "src" and any(tag.state != _INEFFECTIVE for tag in match.src_secure_tags):
        further.append("secure tags")
    kinds = (getattr(match, f"{end}_network_{name}") for name in ("type", "context"))
    only = [f"{kind.lower().replace('_', '-')} addresses" for kind in kinds if kind not in _ANY_NETWORK]
    return tuple(further), tuple(only)
